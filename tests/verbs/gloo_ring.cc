// SPDX-License-Identifier: BSD-3-Clause
//
// gloo_ring RANK SIZE FOLDER DEVICE: one of SIZE processes that add up and pass around numbers by gloo's transport ibverbs. They find
// each other by files in the folder. Built by programs.tap if libgloo-dev is installed.
#include <gloo/allreduce_ring.h>
#include <gloo/broadcast_one_to_all.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/ibverbs/device.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <vector>

namespace {

const int COUNT = 100000, ROUNDS = 20; // numbers of a ring's buffer; times that they go around

// False: the sum over all processes is wrong somewhere.
bool add_up(const gloo::Context &context, gloo::Algorithm &sum, std::vector<float> &numbers)
{
    for (int round = 0; round < ROUNDS; round++) {
        float expected = 0;

        for (int i = 0; i < COUNT; i++)
            numbers[i] = static_cast<float>(context.rank + round + i % 100);
        sum.run();
        for (int rank = 0; rank < context.size; rank++)
            expected += static_cast<float>(rank + round);
        for (int i = 0; i < COUNT; i++)
            if (numbers[i] != expected + static_cast<float>(context.size * (i % 100)))
                return false;
    }
    return true;
}

// False: what the first process has did not arrive.
bool pass_on(const gloo::Context &context, gloo::Algorithm &broadcast, std::vector<int> &numbers)
{
    for (int i = 0; i < COUNT; i++)
        numbers[i] = context.rank ? -1 : i;
    broadcast.run();
    for (int i = 0; i < COUNT; i++)
        if (numbers[i] != i)
            return false;
    return true;
}

// gloo lets no buffer go whose Send has no completion, and its algorithms do not wait for that of their last one. Sends complete in
// their order: behind these, those of all algorithms have. And every process is here.
void meet(gloo::Context &context)
{
    const int slot = static_cast<int>(context.nextSlot());
    std::vector<int> out(context.size), in(context.size);
    std::vector<std::unique_ptr<gloo::transport::Buffer>> sends, receives;

    for (int rank = 0; rank < context.size; rank++) {
        if (rank == context.rank)
            continue;
        auto &pair = context.getPair(rank);
        sends.push_back(pair->createSendBuffer(slot, &out[rank], sizeof(out[rank])));
        receives.push_back(pair->createRecvBuffer(slot, &in[rank], sizeof(in[rank])));
    }
    for (auto &buffer : sends)
        buffer->send();
    for (auto &buffer : receives)
        buffer->waitRecv();
    for (auto &buffer : sends)
        buffer->waitSend();
}

// gloo of 2025 takes a pointer to the store, the one before the store itself: the first of these that compiles is called.
template <typename Store>
auto connect(gloo::rendezvous::Context &context, const std::shared_ptr<Store> &store, std::shared_ptr<gloo::transport::Device> &device, int)
    -> decltype(context.connectFullMesh(store, device))
{
    context.connectFullMesh(store, device);
}

template <typename Store>
void connect(gloo::rendezvous::Context &context, const std::shared_ptr<Store> &store, std::shared_ptr<gloo::transport::Device> &device, long)
{
    context.connectFullMesh(*store, device);
}

int run(int rank, int size, const char *folder, const char *name)
{
    gloo::transport::ibverbs::attr attr = {name, 1, 0};
    std::shared_ptr<gloo::transport::Device> device = gloo::transport::ibverbs::CreateDevice(attr);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
    auto store = std::make_shared<gloo::rendezvous::FileStore>(folder);
    std::vector<float> terms(COUNT);
    std::vector<int> passed(COUNT);

    connect(*context, store, device, 0);
    gloo::AllreduceRing<float> sum(context, {terms.data()}, COUNT);
    gloo::BroadcastOneToAll<int> broadcast(context, {passed.data()}, COUNT, 0);
    bool sum_right = add_up(*context, sum, terms), broadcast_right = pass_on(*context, broadcast, passed);
    meet(*context);
    std::printf("sum %s, broadcast %s\n", sum_right ? "right" : "wrong", broadcast_right ? "right" : "wrong");
    return sum_right && broadcast_right ? 0 : 1;
}

}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    try {
        return run(std::atoi(argv[1]), std::atoi(argv[2]), argv[3], argv[4]);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
