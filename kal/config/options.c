/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of [ital] and [policy], and the options that name an interface's device. */
#include "kal_config.h"

#include "formats/kald_message.h"

const struct ri_option kal_ital_options[] = {
    { "provider_path", "path", "", "folders, separated by colons",
      "Searched for providers (vp_*.so) before all other places." },
    { "log", "string", "warning:stderr", "LEVEL[:stderr|syslog|FILE]",
      "error, warning, info or debug, and where the lines go; ITAL_LOG overrides." },
    { "spin", "time: 0..60000000", "20", "us",
      "How long a wait polls before it sleeps; 0: it sleeps at once." },
    { "progress", "enum: shared|dedicated", "shared", "",
      "Who serves those that do not call. shared: a thread that sleeps while nothing arrives; "
      "dedicated: that thread polls all the time while an interface has endpoints, on a processor "
      "of its own." },
    { "progress_cpus", "list: 1..4", "", "processors",
      "The processor to which that thread is pinned, one for each lane, in turn; empty: none." },
    { "default", "string", "", "interface",
      "The interface that stands first and so is taken where none is named; empty: interface "
      "sections, then providers in a fixed order. ITAL_INTERFACE overrides." },
    { "fallback", "list", "", "interfaces",
      "Interfaces that stand behind the default one, in this order, and so are taken where it "
      "cannot be used." },
    { "ask_timeout", "time: 10..86400000", "5000", "ms",
      "How long a list of interfaces waits until all providers have listed their devices." },
    { "default_interfaces", "bool", "yes", "",
      "Every usable device is an interface of its own name also when interface sections exist." },
    { "kald", "path", KALD_SOCKET, "socket",
      "Where kald(8) serves, which keeps accounts of all processes of a user; empty: the process "
      "does without." },
    { "monitor", "bool", "yes", "",
      "The process shows its state to itstat(1), of its own user and of root; ITAL_MONITOR "
      "overrides." },
};
const size_t kal_ital_option_count = sizeof(kal_ital_options) / sizeof(*kal_ital_options);

const struct ri_option kal_policy_options[] = {
    { "rule1", "string", "allow any",
      "ACTION DIRECTION [to|from|on PREFIX] [port N[-M]] [user NAME] [group NAME] [interface NAME]",
      "rule1, rule2, ... in the order of the file, the first that matches decides; none: allow. "
      "ACTION: allow, deny. DIRECTION: connect, listen, convert, request, any." },
};
const size_t kal_policy_option_count = sizeof(kal_policy_options) / sizeof(*kal_policy_options);

const struct ri_option kal_section_options[] = {
    { "provider", "string", "", "name", "Provider of the interface; needed." },
    { "device", "string", "", "name", "Device of the provider; empty: its default." },
    { "fallback", "list", "", "interfaces",
      "Interfaces of which the first usable one stands in for this one while it is not usable." },
};
const size_t kal_section_option_count = sizeof(kal_section_options) / sizeof(*kal_section_options);
