/* SPDX-License-Identifier: BSD-3-Clause
 * What the files of fake_kal.h share. */
#ifndef ITAL_TESTS_FAKE_KAL_PRIVATE_H
#define ITAL_TESTS_FAKE_KAL_PRIVATE_H

#include "fake_kal.h"

struct kal {
    int nothing;
};

struct kal_rnic {
    void *context;
};

struct fk_cq {
    struct ri_cq ri;
    struct ri_wc wc[256];
    uint32_t first, count;
    bool armed;
};

extern pthread_mutex_t fk_lock; /* guards fk and all that is behind it */
extern pthread_cond_t fk_changed;
extern const struct kal_upper *fk_upper;
extern void *fk_lane; /* the context of ual's lane */
extern struct kal_rnic fk_rnic;
extern struct fk_cq *fk_last_cq;             /* fake_kal_data.c */
extern const struct ri_user_ops fk_user_ops; /* fake_kal_data.c */

enum kal_status fk_planned(enum fk_call call); /* the failure that was ordered; under the lock */
void fk_violation(const char *what);
/* Counts, unless a failure was ordered. */
enum kal_status fk_make(unsigned int *count, enum fk_call call);
void fk_gone(unsigned int *count);
/* Under the lock: what is queued about an object goes, an upcall in another thread is waited for. */
void fk_forget(const void *object, const bool *upcall);
void fk_to_error(struct fk_qp *qp); /* with the receives flushed */

/* Of the lane: deliver the news; nothing is there, it may sleep. */
uint32_t fk_progress(struct ri_lane *lane, struct ri_cq *first, uint32_t budget, uint64_t *next);
bool fk_lane_arm(struct ri_lane *lane);

#endif
