/* SPDX-License-Identifier: BSD-3-Clause
 *
 * libfabric as a peer: reliable datagram endpoints over TCP.
 *
 * --provider tcp uses that provider's own reliable datagrams. Before libfabric 1.18 these are in a
 * provider called net, and tcp has connected endpoints only, which are slower. tcp;ofi_rxm is the
 * older layer above connected endpoints.
 *
 * Settings: manual progress and one thread per domain, so that no lock is taken and no thread of
 * the library competes for the processor. Small messages of the ping-pong are injected, which
 * leaves no completion to fetch. rxm passes large messages through to tcp instead of fetching them
 * by a read (in one trial 17 us instead of 31 for 64 KiB). Everything else has the library's
 * defaults, with TCP_NODELAY on and the kernel's socket buffers. Environment variables (FI_...)
 * override these settings.
 */
#include "congestion.h"
#include "transport.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#define ENTRIES 16

struct fabric {
    struct transport transport; /* first */
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    struct fid_mr *mr;
    void *descriptor;
    fi_addr_t there;
    uint64_t remote, key; /* of the other end's region */
    bool inject;
    int receive_context; /* its address marks receive completions */
};

struct hello {
    uint8_t name[256];
    uint64_t length, region, key;
};

static void must(ssize_t status, const char *what)
{
    if (status < 0)
        peer_die("%s: %s", what, fi_strerror((int)-status));
}

/* ---- posts ---- */

static struct fabric *fabric_of(struct transport *transport)
{
    return (struct fabric *)transport;
}

static bool posted(ssize_t status, const char *what)
{
    if (status == -FI_EAGAIN)
        return false;
    must(status, what);
    return true;
}

/* Injected messages have no completion: counts the message as sent. */
static bool injected(struct fabric *f, ssize_t status, const char *what)
{
    if (!posted(status, what))
        return false;
    f->transport.sent++;
    return true;
}

static uint64_t remote_of(const struct fabric *f, const volatile void *here)
{
    return f->remote + (uint64_t)((const volatile char *)here - f->transport.region);
}

static bool post_send(struct transport *t)
{
    struct fabric *f = fabric_of(t);

    if (f->inject)
        return injected(f, fi_inject(f->ep, t->out, t->peer->plan.size, f->there), "fi_inject");
    return posted(fi_send(f->ep, t->out, t->peer->plan.size, f->descriptor, f->there, NULL),
                  "fi_send");
}

static bool post_receive(struct transport *t)
{
    struct fabric *f = fabric_of(t);

    return posted(fi_recv(f->ep, t->in, t->peer->plan.size, f->descriptor, FI_ADDR_UNSPEC,
                          &f->receive_context),
                  "fi_recv");
}

static bool post_write(struct transport *t)
{
    struct fabric *f = fabric_of(t);

    if (f->inject)
        return injected(f,
                        fi_inject_write(f->ep, t->out, t->peer->plan.size, f->there,
                                        remote_of(f, t->in), f->key),
                        "fi_inject_write");
    return posted(fi_write(f->ep, t->out, t->peer->plan.size, f->descriptor, f->there,
                           remote_of(f, t->in), f->key, NULL),
                  "fi_write");
}

static bool post_read(struct transport *t)
{
    struct fabric *f = fabric_of(t);

    return posted(fi_read(f->ep, t->in, t->peer->plan.size, f->descriptor, f->there,
                          remote_of(f, t->out), f->key, NULL),
                  "fi_read");
}

static bool post_count(struct transport *t)
{
    struct fabric *f = fabric_of(t);
    struct iovec iov = { t->count_out, sizeof(*t->count_out) };
    struct fi_rma_iov remote = { remote_of(f, t->count_in), sizeof(*t->count_in), f->key };
    struct fi_msg_rma message = { .msg_iov = &iov,
                                  .desc = &f->descriptor,
                                  .iov_count = 1,
                                  .addr = f->there,
                                  .rma_iov = &remote,
                                  .rma_iov_count = 1 };

    return posted(fi_writemsg(f->ep, &message, FI_DELIVERY_COMPLETE | FI_COMPLETION),
                  "fi_writemsg");
}

/* ---- completions ---- */

static bool count(struct fabric *f, ssize_t n, const struct fi_cq_entry *entries)
{
    struct fi_cq_err_entry error = { 0 };

    if (n == -FI_EAGAIN)
        return false;
    if (n == -FI_EAVAIL) {
        fi_cq_readerr(f->cq, &error, 0);
        peer_die("completion: %s", fi_strerror(error.err));
    }
    if (n != -FI_EINTR)
        must(n, "fi_cq_read");
    for (ssize_t i = 0; i < n; i++) {
        if (entries[i].op_context == &f->receive_context)
            f->transport.received++;
        else
            f->transport.sent++;
    }
    return n > 0;
}

static void poll_once(struct transport *t)
{
    struct fi_cq_entry entries[ENTRIES];
    struct fabric *f = fabric_of(t);

    count(f, fi_cq_read(f->cq, entries, ENTRIES), entries);
}

static bool wait_once(struct transport *t)
{
    struct fi_cq_entry entries[ENTRIES];
    struct fabric *f = fabric_of(t);

    return count(f, fi_cq_sread(f->cq, entries, ENTRIES, NULL, TRANSPORT_WAIT_MS), entries);
}

/* ---- set-up ---- */

/* Maps --provider to the provider's name in this version of libfabric. */
static const char *provider_name(const struct peer_plan *plan)
{
    if (strcmp(plan->provider, "tcp") == 0 && FI_VERSION_LT(fi_version(), FI_VERSION(1, 18)))
        return "net";
    return plan->provider;
}

static void find(struct fabric *f, struct peer *peer)
{
    struct fi_info *hints = fi_allocinfo(), *all, *info;
    const char *wanted = provider_name(&peer->plan);
    char address[NI_MAXHOST];

    if (!hints)
        peer_die("no memory");
    hints->caps = FI_MSG | FI_RMA;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS | FI_ORDER_WAW;
    hints->fabric_attr->prov_name = strdup(wanted);
    if (getnameinfo((struct sockaddr *)&peer->here, sizeof(peer->here), address, sizeof(address),
                    NULL, 0, NI_NUMERICHOST))
        peer_die("an address of an unknown kind");
    must(fi_getinfo(FI_VERSION(1, 17), address, NULL, FI_SOURCE, hints, &all), wanted);
    for (info = all; info && strcmp(info->fabric_attr->prov_name, wanted) != 0; info = info->next)
        ;
    if (!info)
        peer_die("no provider %s for %s", wanted, address);
    f->info = fi_dupinfo(info);
    fi_freeinfo(all);
    fi_freeinfo(hints);
}

static void open_endpoint(struct fabric *f, struct peer *peer)
{
    struct fi_cq_attr cq = { .size = 2 * peer->plan.window + 16,
                             .format = FI_CQ_FORMAT_CONTEXT,
                             .wait_obj = peer->plan.event ? FI_WAIT_UNSPEC : FI_WAIT_NONE };
    struct fi_av_attr av = { .type = FI_AV_TABLE };
    struct transport *t = &f->transport;

    must(fi_fabric(f->info->fabric_attr, &f->fabric, NULL), "fi_fabric");
    must(fi_domain(f->fabric, f->info, &f->domain, NULL), "fi_domain");
    must(fi_cq_open(f->domain, &cq, &f->cq, NULL), "fi_cq_open");
    must(fi_av_open(f->domain, &av, &f->av, NULL), "fi_av_open");
    must(fi_endpoint(f->domain, f->info, &f->ep, NULL), "fi_endpoint");
    must(fi_ep_bind(f->ep, &f->av->fid, 0), "fi_ep_bind");
    must(fi_ep_bind(f->ep, &f->cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    must(fi_enable(f->ep), "fi_enable");
    must(fi_mr_reg(f->domain, t->region, t->region_octets,
                   FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 1,
                   0, &f->mr, NULL),
         "fi_mr_reg");
    f->descriptor = fi_mr_desc(f->mr);
}

static void meet(struct fabric *f, struct peer *peer)
{
    struct hello mine = { .key = fi_mr_key(f->mr) }, theirs;
    size_t length = sizeof(mine.name);

    must(fi_getname(&f->ep->fid, mine.name, &length), "fi_getname");
    if (f->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR)
        mine.region = (uintptr_t)f->transport.region;
    mine.length = length;
    peer_exchange(peer, &mine, sizeof(mine), &theirs, sizeof(theirs));
    if (fi_av_insert(f->av, theirs.name, 1, &f->there, 0, NULL) != 1)
        peer_die("fi_av_insert failed");
    f->remote = theirs.region;
    f->key = theirs.key;
}

static void run(struct peer *peer)
{
    static struct fabric f = { .transport = { .send = post_send,
                                              .receive = post_receive,
                                              .write = post_write,
                                              .read = post_read,
                                              .send_count = post_count,
                                              .poll = poll_once,
                                              .wait = wait_once } };

    congestion_use(peer->plan.congestion);
    /* One thread polls, so the provider needs none of its own. It reads this variable. */
    setenv("FI_NET_DISABLE_AUTO_PROGRESS", "1", 0);
    setenv("FI_TCP_DISABLE_AUTO_PROGRESS", "1", 0);
    setenv("FI_OFI_RXM_ENABLE_PASSTHRU", "1", 0);
    transport_init(&f.transport, peer);
    find(&f, peer);
    snprintf(peer->library, sizeof(peer->library), "libfabric %s %s", fi_tostr("", FI_TYPE_VERSION),
             f.info->fabric_attr->prov_name);
    f.inject = peer->plan.mode == PEER_LAT && peer->plan.size <= f.info->tx_attr->inject_size;
    open_endpoint(&f, peer);
    meet(&f, peer);
    transport_run(&f.transport);
    fi_close(&f.ep->fid);
    fi_close(&f.mr->fid);
    fi_close(&f.av->fid);
    fi_close(&f.cq->fid);
    fi_close(&f.domain->fid);
    fi_close(&f.fabric->fid);
    fi_freeinfo(f.info);
}

int main(int argc, char **argv)
{
    static const char *const providers[] = { "tcp", "tcp;ofi_rxm", NULL };
    static const struct peer_program program = {
        .name = "fabric_peer",
        .ops = PEER_OP(PEER_SEND) | PEER_OP(PEER_WRITE) | PEER_OP(PEER_READ),
        .providers = providers,
        .run = run,
    };

    return peer_main(argc, argv, &program);
}
