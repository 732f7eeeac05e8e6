/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of kal share: a folder of providers, a configuration, the log as text, a lane. */
#ifndef ITAL_TESTS_KAL_FIXTURE_H
#define ITAL_TESTS_KAL_FIXTURE_H

#include "fake_upper.h"
#include "kal/registry/registry.h"
#include "tc.h"

/* Checked fixture: an empty folder becomes ITAL_PROVIDER_PATH, its file "log" the log at debug
 * level, and ITAL_CONF an empty file; ITAL_TEST_VP is unset. */
void fixture_setup(void);

const char *fixture_folder(void);
/* Copies a module built by this folder ("vp_test", "broken/vp_major2") into the folder, under
 * `name` or, with NULL, its own name. */
void fixture_module(const char *module, const char *name);
const char *fixture_module_path(const char *module); /* static */
void fixture_file(const char *name, const void *data, size_t length);
void fixture_folder_made(const char *name); /* in the folder */
void fixture_conf(const char *text);        /* the configuration file */
const char *fixture_conf_path(void);
const char *fixture_log(void);                /* all lines so far; valid until the next call */
unsigned fixture_log_count(const char *text); /* lines that contain it */

/* kal_get with fake_upper; must succeed. */
struct kal *fixture_another(void);
/* The kal of a test; fixture_put gives it back if it is there (the teardown of a case). */
extern struct kal *kal;
void fixture_get(void);
void fixture_put(void);
/* A lane without epoll, for objects that need one; new in each fixture. */
extern struct fake_lane fixture_lane;
/* The only descriptor in it; -1: none or several. */
int fixture_watched_fd(void);
/* Does what a run of the lane does when the descriptor is ready. */
void fixture_ready(void);

#endif
