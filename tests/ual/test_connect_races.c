/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections of ual over a fake kal: events of the provider during a call. */
#include "ia_fixture.h"

/* --- races --- */

static pthread_barrier_t start;

static void *disconnecting(void *arg)
{
    static const enum ri_status answers[2] = { RI_OK, RI_ERR_INVALID_STATE };
    enum ri_status status;

    (void)arg;
    pthread_barrier_wait(&start);
    status = ual_ep_disconnect(ep, NULL, 0);
    return (void *)&answers[status == RI_OK ? 0 : 1];
}

static void *ending(void *arg)
{
    (void)arg;
    pthread_barrier_wait(&start);
    fk_end(fk.qp, RI_EVENT_LLP_RESET);
    return NULL;
}

static void *aborting(void *arg)
{
    (void)arg;
    pthread_barrier_wait(&start);
    fk_establish(fk.connection);
    return NULL;
}

/* Disconnect races with the peer's end, and with ESTABLISHED: exactly one end each time, and the
 * endpoint can be used again. */
START_TEST(race_of_ends)
{
    unsigned long rounds = tc_count(300);

    pthread_barrier_init(&start, NULL, 2);
    for (unsigned long i = 0; i < rounds; i++) {
        struct ual_connection_event got;
        pthread_t threads[2];
        void *answer;

        establish(ep);
        pthread_create(&threads[0], NULL, disconnecting, NULL);
        pthread_create(&threads[1], NULL, ending, NULL);
        pthread_join(threads[0], &answer);
        pthread_join(threads[1], NULL);
        got = next_event(connect_evd).connection;
        ck_assert(got.message ==
                  (*(enum ri_status *)answer == RI_OK ? UAL_DISCONNECTED : UAL_BROKEN));
        expect_nothing(connect_evd);
        expect_state(ep, UAL_EP_NONOPERATIONAL);
        ok(ual_ep_reset(ep));
    }
    pthread_barrier_destroy(&start);
}
END_TEST

START_TEST(race_of_abort)
{
    unsigned long rounds = tc_count(300);

    pthread_barrier_init(&start, NULL, 2);
    for (unsigned long i = 0; i < rounds; i++) {
        enum ual_connection_message message;
        pthread_t threads[2];

        ok(connect_to(ep, false));
        fk_hold(true); /* the connection lives until both have started */
        pthread_create(&threads[1], NULL, aborting, NULL);
        pthread_barrier_wait(&start);
        pthread_join(threads[1], NULL);
        pthread_create(&threads[0], NULL, disconnecting, NULL);
        pthread_barrier_wait(&start);
        fk_hold(false);
        pthread_join(threads[0], NULL);
        message = next_event(connect_evd).connection.message;
        if (message == UAL_ESTABLISHED) {
            fk_end(fk.qp, RI_EVENT_LLP_CLOSED);
            message = next_event(connect_evd).connection.message;
        }
        ck_assert_int_eq(message, UAL_DISCONNECTED);
        expect_nothing(connect_evd);
        ok(ual_ep_reset(ep));
    }
    pthread_barrier_destroy(&start);
}
END_TEST

static void *accepting(void *arg)
{
    ual_handle request = *(ual_handle *)arg;

    pthread_barrier_wait(&start);
    return accept_it(ep, request) == RI_OK ? ep : NULL;
}

/* A consumer accepts while the peer withdraws: either the call is too late, or the endpoint gets
 * the end. */
START_TEST(race_of_withdrawal)
{
    unsigned long rounds = tc_count(300);

    pthread_barrier_init(&start, NULL, 2);
    for (unsigned long i = 0; i < rounds; i++) {
        struct ual_request_event request = ask();
        pthread_t thread;
        void *accepted;

        fk_hold(true);
        fk_withdraw(fk.connection, true);
        fk.connection->withdrawn = i % 2;
        pthread_create(&thread, NULL, accepting, &request.request);
        pthread_barrier_wait(&start);
        fk_hold(false);
        pthread_join(thread, &accepted);
        if (accepted) {
            expect(connect_evd, UAL_NONPEER_REJECTED);
            ok(ual_ep_reset(ep));
        }
        expect_nothing(connect_evd);
        expect_state(ep, UAL_EP_UNCONNECTED);
        ck_assert(tc_until((fk_drain(), fk_connections()) == 0, 10000));
    }
    pthread_barrier_destroy(&start);
}
END_TEST

static void *rejecting(void *arg)
{
    ual_handle request = *(ual_handle *)arg;

    pthread_barrier_wait(&start);
    return ual_reject(request, NULL, 0) == RI_OK ? ep : NULL;
}

/* Two threads decide one request: one of them succeeds. */
START_TEST(race_of_decisions)
{
    unsigned long rounds = tc_count(300);

    pthread_barrier_init(&start, NULL, 2);
    for (unsigned long i = 0; i < rounds; i++) {
        struct ual_request_event request = ask();
        void *accepted, *rejected;
        pthread_t threads[2];

        pthread_create(&threads[0], NULL, accepting, &request.request);
        pthread_create(&threads[1], NULL, rejecting, &request.request);
        pthread_join(threads[0], &accepted);
        pthread_join(threads[1], &rejected);
        ck_assert_int_eq(!accepted + !rejected, 1);
        expect_state(ep, accepted ? UAL_EP_PASSIVE : UAL_EP_UNCONNECTED);
        ck_assert_uint_eq(fk_connections(), accepted ? 1 : 0);
        if (accepted) {
            ok(ual_ep_disconnect(ep, NULL, 0));
            expect(connect_evd, UAL_DISCONNECTED);
        }
        ok(ual_ep_reset(ep));
    }
    pthread_barrier_destroy(&start);
}
END_TEST

/* Free while events arrive: no message afterwards, nothing left. */
START_TEST(race_of_free)
{
    unsigned long rounds = tc_count(300);

    for (unsigned long i = 0; i < rounds; i++) {
        establish(ep);
        fk_end(fk.qp, RI_EVENT_INTEGRITY);
        if (i % 2)
            tell(RI_CONNECTION_DISCONNECTED);
        ok(ual_ep_free(ep));
        expect_nothing(connect_evd);
        expect_nothing(affiliated_evd);
        ep = make_ep();
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("races of connections");
    TCase *race = tc_case(suite, "races", open_ia, close_ia);

    tcase_set_timeout(race, 60);
    tc_add_tests(race, race_of_ends, race_of_abort, race_of_withdrawal, race_of_decisions,
                 race_of_free);
    return tc_main(suite);
}
