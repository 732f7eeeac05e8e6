/* SPDX-License-Identifier: BSD-3-Clause */
/* The device of the simulated link: a wire whose QPs are those of roce/rc. */
#ifndef ITAL_TESTS_ROCE_SIM_DEVICE_H
#define ITAL_TESTS_ROCE_SIM_DEVICE_H

#include "sim.h"

extern const struct ri_provider sim_provider;
extern const struct wire sim_wire, sim_ud_wire;
/* What a pass takes from the link; sim.c. */
uint32_t sim_serve(struct lane *lane);
/* Connects a QP with the attributes of its end; inside tx. */
enum ri_status sim_start(struct qp *qp);
/* The link that a device is opened for, until it is closed: one at a time. */
extern struct sim *sim_current;

#endif
