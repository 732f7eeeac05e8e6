/* SPDX-License-Identifier: BSD-3-Clause */
/* Random calls against a model of the objects: adapters, zones, memory, EVDs, contexts. */
#include "objects.h"

#define REGION 4096u

/* --- the model --- */

it_handle_t handle_of(const struct object *object)
{
    return object ? object->handle : NULL;
}

bool alive(const struct object *object)
{
    return object && object->alive;
}

void model_check(struct model *model, const char *call, it_status_t given, it_status_t expected)
{
    model->calls++;
    model->refused += expected != IT_SUCCESS;
    ck_assert_msg(given == expected, "seed %llu, call %lu: %s gives %s, not %s",
                  (unsigned long long)model->seed, model->calls, call, itx_status_name(given),
                  itx_status_name(expected));
}

/* Picks one of those for which the condition holds, with equal probability; NULL: none. */
#define PICK(model, condition)                                                            \
    ({                                                                                    \
        struct object *picked_ = NULL;                                                    \
        uint64_t seen_ = 0;                                                               \
        for (struct object *it = (model)->objects; it < (model)->objects + OBJECTS; it++) \
            if (it->handle && (condition) && tc_below(&(model)->rng, ++seen_) == 0)       \
                picked_ = it;                                                             \
        picked_;                                                                          \
    })

/* Mostly a live object. */
struct object *model_pick(struct model *model, enum kind kind)
{
    bool living = tc_below(&model->rng, 8) > 0;

    return PICK(model, it->kind == kind && it->alive == living);
}

struct object *model_pick_in(struct model *model, enum kind kind, const struct object *ia)
{
    bool living = tc_below(&model->rng, 16) > 0;

    return PICK(model, it->kind == kind && it->alive == living && (it->ia == ia || !living));
}

struct object *model_pick_stream(struct model *model, const struct object *ia,
                                 it_event_type_t stream)
{
    bool right = tc_below(&model->rng, 16) > 0;

    return PICK(model, it->kind == EVD && it->alive && it->ia == ia &&
                           (it->evd.stream == stream) == right);
}

struct object *model_pick_mostly(struct model *model, it_event_type_t stream)
{
    struct object *found = tc_below(&model->rng, 4) ? PICK(model, it->kind == EVD && it->alive &&
                                                                      it->evd.stream == stream)
                                                    : NULL;

    return found ? found : model_pick(model, EVD);
}

struct object *model_pick_sender(struct model *model)
{
    struct object *found = tc_below(&model->rng, 2)
                               ? PICK(model, it->kind == EP && it->alive && it->ep.peer)
                               : NULL;

    return found ? found : model_pick(model, EP);
}

struct object *model_add(struct model *model, enum kind kind, it_handle_t handle, struct object *ia,
                         struct object *pz)
{
    struct object *object = PICK(model, !it->alive && it->users == 0);

    for (struct object *it = model->objects; it < model->objects + OBJECTS; it++)
        if (!it->handle)
            object = it;
    ck_assert_ptr_nonnull(object);
    *object = (struct object){ .kind = kind, .handle = handle, .alive = true, .ia = ia, .pz = pz };
    if (pz)
        pz->users++;
    return object;
}

void model_remove(struct model *model, struct object *object)
{
    (void)model;
    object->alive = false;
    if (alive(object->pz)) /* else it is freed with its adapter */
        object->pz->users--;
    if (object->kind == LMR)
        free(object->lmr.data);
    if (object->kind == EVD && alive(object->evd.aevd))
        object->evd.aevd->users--;
    object->users = 0;
}

static bool is_full(const struct model *model)
{
    size_t living = 0;

    for (size_t i = 0; i < OBJECTS; i++)
        living += model->objects[i].alive;
    return living > OBJECTS - 8;
}

/* --- adapters --- */

static void call_ia_create(struct model *model)
{
    size_t living = 0;
    it_ia_handle_t ia;

    for (size_t i = 0; i < OBJECTS; i++)
        living += model->objects[i].alive && model->objects[i].kind == IA;
    if (living == 3)
        return;
    model_check(model, "it_ia_create", it_ia_create(model->interface, 2, 1, &ia), IT_SUCCESS);
    model_add(model, IA, ia, NULL, NULL);
}

static void free_ia(struct model *model, struct object *ia)
{
    it_status_t expected = alive(ia) ? IT_SUCCESS : IT_ERR_INVALID_IA;

    model_check(model, "it_ia_free", it_ia_free(handle_of(ia)), expected);
    if (expected != IT_SUCCESS)
        return;
    peers_lose(model, ia);
    for (struct object *it = model->objects; it < model->objects + OBJECTS; it++)
        if (it->alive && it->ia == ia)
            model_remove(model, it);
    model_remove(model, ia);
}

static void call_ia_free(struct model *model)
{
    if (tc_below(&model->rng, 10) == 0)
        free_ia(model, model_pick(model, IA));
}

/* --- zones --- */

static void call_pz_create(struct model *model)
{
    struct object *ia = model_pick(model, IA);
    it_pz_handle_t pz;
    it_status_t expected = alive(ia) ? IT_SUCCESS : IT_ERR_INVALID_IA;

    model_check(model, "it_pz_create", it_pz_create(handle_of(ia), &pz), expected);
    if (expected == IT_SUCCESS)
        model_add(model, PZ, pz, ia, NULL);
}

static void call_pz_free(struct model *model)
{
    struct object *pz = model_pick(model, PZ);
    it_status_t expected = !alive(pz) ? IT_ERR_INVALID_PZ : pz->users ? IT_ERR_PZ_BUSY : IT_SUCCESS;

    model_check(model, "it_pz_free", it_pz_free(handle_of(pz)), expected);
    if (expected == IT_SUCCESS)
        model_remove(model, pz);
}

/* --- memory --- */

static void call_lmr_create(struct model *model)
{
    struct object *pz = model_pick(model, PZ);
    unsigned char *data = calloc(1, REGION);
    it_length_t length = tc_below(&model->rng, 8) ? 1 + tc_below(&model->rng, REGION) : 0;
    it_status_t expected = !alive(pz) ? IT_ERR_INVALID_PZ
                           : length   ? IT_SUCCESS
                                      : IT_ERR_INVALID_LENGTH;
    it_lmr_handle_t lmr;

    model_check(model, "it_lmr_create",
                it_lmr_create(handle_of(pz), data, NULL, length, IT_ADDR_MODE_ABSOLUTE, EVERYTHING,
                              IT_LMR_FLAG_NONE, 0, &lmr, NULL),
                expected);
    if (expected == IT_SUCCESS)
        model_add(model, LMR, lmr, pz->ia, pz)->lmr.data = data;
    else
        free(data);
}

static void call_lmr_free(struct model *model)
{
    struct object *lmr = model_pick(model, LMR);
    it_status_t expected = alive(lmr) ? IT_SUCCESS : IT_ERR_INVALID_LMR;

    model_check(model, "it_lmr_free", it_lmr_free(handle_of(lmr)), expected);
    if (expected == IT_SUCCESS)
        model_remove(model, lmr);
}

static void call_lmr_modify(struct model *model)
{
    struct object *lmr = model_pick(model, LMR);
    struct object *pz = alive(lmr) ? model_pick_in(model, PZ, lmr->ia) : NULL;
    it_lmr_param_t params = { .pz = handle_of(pz) };
    it_status_t expected = !alive(lmr) ? IT_ERR_INVALID_LMR
                           : alive(pz) ? IT_SUCCESS
                                       : IT_ERR_INVALID_PZ;

    model_check(model, "it_lmr_modify", it_lmr_modify(handle_of(lmr), IT_LMR_PARAM_PZ, &params),
                expected);
    if (expected != IT_SUCCESS)
        return;
    lmr->pz->users--;
    pz->users++;
    lmr->pz = pz;
}

static void call_rmr_create(struct model *model)
{
    struct object *pz = model_pick(model, PZ);
    it_status_t expected = alive(pz) ? IT_SUCCESS : IT_ERR_INVALID_PZ;
    it_rmr_handle_t rmr;

    model_check(model, "it_rmr_create", it_rmr_create20(handle_of(pz), IT_RMR_TYPE_DEFAULT, &rmr),
                expected);
    if (expected == IT_SUCCESS)
        model_add(model, RMR, rmr, pz->ia, pz);
}

static void call_rmr_free(struct model *model)
{
    struct object *rmr = model_pick(model, RMR);
    it_status_t expected = alive(rmr) ? IT_SUCCESS : IT_ERR_INVALID_RMR;

    model_check(model, "it_rmr_free", it_rmr_free(handle_of(rmr)), expected);
    if (expected == IT_SUCCESS)
        model_remove(model, rmr);
}

static void call_srq_create(struct model *model)
{
    struct object *pz = model_pick(model, PZ);
    size_t size = tc_below(&model->rng, 8);
    it_status_t expected = !alive(pz) ? IT_ERR_INVALID_PZ
                           : size     ? IT_SUCCESS
                                      : IT_ERR_INVALID_SRQ_SIZE;
    it_srq_handle_t srq;
    it_srq_param_t params;

    model_check(model, "it_srq_create", it_srq_create(handle_of(pz), 1, size, &srq), expected);
    if (expected != IT_SUCCESS)
        return;
    ok(it_srq_query(srq, IT_SRQ_PARAM_MAX_RECV_DTO, &params));
    ck_assert_uint_ge(params.max_recv_dtos, size);
    model_add(model, SRQ, srq, pz->ia, pz)->srq.size = params.max_recv_dtos;
}

static void call_srq_free(struct model *model)
{
    struct object *srq = model_pick(model, SRQ);
    it_status_t expected = !alive(srq)  ? IT_ERR_INVALID_SRQ
                           : srq->users ? IT_ERR_SRQ_BUSY
                                        : IT_SUCCESS;

    model_check(model, "it_srq_free", it_srq_free(handle_of(srq)), expected);
    if (expected == IT_SUCCESS)
        model_remove(model, srq);
}

/* --- any handle --- */

static void call_type(struct model *model)
{
    static const it_handle_type_enum_t types[KINDS] = {
        IT_HANDLE_TYPE_IA,  IT_HANDLE_TYPE_PZ,  IT_HANDLE_TYPE_EVD, IT_HANDLE_TYPE_LMR,
        IT_HANDLE_TYPE_RMR, IT_HANDLE_TYPE_SRQ, IT_HANDLE_TYPE_EP,  IT_HANDLE_TYPE_LISTEN,
    };
    struct object *object = model_pick(model, (enum kind)tc_below(&model->rng, KINDS));
    it_handle_type_enum_t type;
    it_status_t expected = alive(object) ? IT_SUCCESS : IT_ERR_INVALID_HANDLE;

    model_check(model, "it_get_handle_type", it_get_handle_type(handle_of(object), &type),
                expected);
    if (expected == IT_SUCCESS)
        ck_assert_int_eq(type, types[object->kind]);
}

static void call_set_context(struct model *model)
{
    struct object *object = model_pick(model, (enum kind)tc_below(&model->rng, KINDS));
    uint64_t value = tc_rand(&model->rng);
    it_context_t context = { .index = value };
    it_status_t expected = alive(object) ? IT_SUCCESS : IT_ERR_INVALID_HANDLE;

    model_check(model, "it_set_consumer_context",
                it_set_consumer_context(handle_of(object), context), expected);
    if (expected != IT_SUCCESS)
        return;
    object->has_context = true;
    object->context = value;
}

static void call_get_context(struct model *model)
{
    struct object *object = model_pick(model, (enum kind)tc_below(&model->rng, KINDS));
    it_context_t context;
    it_status_t expected = !alive(object)        ? IT_ERR_INVALID_HANDLE
                           : object->has_context ? IT_SUCCESS
                                                 : IT_ERR_NO_CONTEXT;

    model_check(model, "it_get_consumer_context",
                it_get_consumer_context(handle_of(object), &context), expected);
    if (expected == IT_SUCCESS)
        ck_assert_uint_eq(context.index, object->context);
}

/* --- histories --- */

typedef void call_fn(struct model *model);
static call_fn *const makes[] = {
    call_ia_create,     call_pz_create,   call_lmr_create,  call_rmr_create, call_srq_create,
    call_evd_create,    call_evd_create,  call_ep_create,   call_ep_create,  call_ep_create,
    call_listen_create, call_aevd_create, call_aevd_create,
};
static call_fn *const others[] = {
    call_ia_free,     call_pz_free,     call_lmr_free,   call_lmr_modify, call_rmr_free,
    call_srq_free,    call_evd_free,    call_post_se,    call_dequeue,    call_type,
    call_set_context, call_get_context, call_ep_free,    call_ep_reset,   call_connect,
    call_connect,     call_connect,     call_disconnect, call_post_recv,  call_post_recv,
    call_post_send,   call_listen_free, call_post_srq,   call_post_se,    call_dequeue,
    call_evd_modify,  call_attach,      call_detach,     call_post_se,    call_post_srq,
    call_post_send,
};
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

void objects_history(struct model *model, const char *interface, uint64_t seed, unsigned calls)
{
    memset(model, 0, sizeof(*model));
    model->interface = interface;
    model->seed = seed;
    model->rng = tc_rng(seed);
    call_ia_create(model);
    while (calls--) {
        if (!is_full(model) && tc_below(&model->rng, 3) == 0)
            makes[tc_below(&model->rng, COUNT(makes))](model);
        else
            others[tc_below(&model->rng, COUNT(others))](model);
    }
    for (size_t i = 0; i < OBJECTS; i++)
        if (model->objects[i].alive && model->objects[i].kind == IA)
            free_ia(model, &model->objects[i]);
}
