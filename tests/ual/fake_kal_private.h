/* SPDX-License-Identifier: BSD-3-Clause
 * What the files of fake_kal.h share. */
#ifndef ITAL_TESTS_FAKE_KAL_PRIVATE_H
#define ITAL_TESTS_FAKE_KAL_PRIVATE_H

#include "fake_kal.h"

struct kal {
    int nothing;
};

#define FK_RNICS 4u

/* Each with one lane. */
struct kal_rnic {
    bool open;
    void *context;
    void *lane; /* the context of ual's lane; NULL: none */
    struct ri_lane ri;
};

struct fk_cq {
    struct ri_cq ri;
    struct kal_rnic *rnic;
    struct ri_wc wc[256];
    struct fk_qp *of[256]; /* the QP of each completion; NULL: none */
    uint32_t first, count, depth;
    bool armed, upcall;
    enum ri_arm kind;
};

extern pthread_mutex_t fk_lock; /* guards fk and all objects of the fake kal */
extern pthread_cond_t fk_changed;
extern const struct kal_upper *fk_upper;
extern struct kal_rnic fk_rnics[FK_RNICS];
extern struct kal_rnic *fk_rnic;             /* the last that was opened */
extern struct fk_cq *fk_last_cq;             /* fake_kal_data.c */
extern const struct ri_user_ops fk_user_ops; /* fake_kal_data.c */

enum ri_status fk_planned(enum fk_call call); /* the failure that was ordered; under the lock */
void fk_violation(const char *what);
/* Counts, unless a failure was ordered. */
enum ri_status fk_make(unsigned int *count, enum fk_call call);
void fk_gone(unsigned int *count);
/* Memory for what was counted so; NULL: it is counted no more. */
void *fk_new(size_t size, unsigned int *count);
/* Under the lock: drops what is queued about an object, and waits for an upcall about it in another
 * thread. */
void fk_forget(const void *object, const bool *upcall);
void fk_to_error(struct fk_qp *qp); /* with the receives flushed */
/* Under the lock: completions of the QP are not polled from now on. */
void fk_forget_completions(const struct fk_qp *qp);

/* Progress of the lane: delivers the queued events, all of them, and lets the lane sleep. */
uint32_t fk_progress(struct ri_lane *lane, struct ri_cq *first, uint32_t budget, uint64_t *next);
bool fk_lane_arm(struct ri_lane *lane);

#endif
