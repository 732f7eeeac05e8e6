/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Filters between fake_host and its provider, so that tests of a provider run over them: the
 * variable ITAL_TEST_FILTERS names their files, "FILE" or "FILE=ARGUMENT", the outermost first,
 * separated by blanks.
 */
#ifndef ITAL_TESTS_FAKE_FILTERS_H
#define ITAL_TESTS_FAKE_FILTERS_H

#include "rnicpi.h"

/* Puts them in front of the provider that is to be opened. The tables of `open` are those of the
 * outermost afterwards. Ends the program if a file cannot be loaded. */
void fake_filters_take(struct ri_open *open, struct ri_privileged_ops *privileged,
                       struct ri_user_ops *user);

/* The provider's own object, of one that the outermost filter made: for tests that look inside. */
void *fake_below(const void *object);

#endif
