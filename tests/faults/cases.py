# SPDX-License-Identifier: BSD-3-Clause
"""The table of faults: who does what, and which events are defined to come of it, by interface.

A case is two command lines of itfault. `actor` is the side that does it, `peer` the other one. Awaited events have to come ("A|B": one
of them), allowed ones may; any other event is a failure, and so is a request that does not complete, a call that fails when
everything is freed, a thread or descriptor that is left, a program that hangs.
"""
import itertools
import re

CM, AFF, UNAFF, DTO, REJ = "IT_CM_MSG_CONN_", "IT_ASYNC_AFF_EP_", "IT_ASYNC_UNAFF_SPIGOT_", "IT_DTO_ERR_", "IT_CN_REJ_"
DISCONNECT, BROKEN = CM + "DISCONNECT_EVENT", CM + "BROKEN_EVENT"
END = DISCONNECT + "|" + BROKEN
OFFLINE, ONLINE = UNAFF + "OFFLINE", UNAFF + "ONLINE"
DEAD = "IT_ERR_IA_CATASTROPHE"
REFUSED = CM + "NONPEER_REJECT_EVENT"

# fault: awaited by the actor, allowed, awaited by the peer, allowed. What another interface has differently is below.
EVENTS = {
    "disconnect": ([DISCONNECT], [], [END], []),  # with requests outstanding iWARP may end by a reset
    "kill": ([END], [], None, []),
    "free": ([], [], [END], []),
    "access": ([BROKEN], [DTO + "REMOTE_ACCESS"], [BROKEN, AFF + "RDMAW_ACCESS_VIOLATION"], []),
    "long": ([BROKEN], [DTO + "REMOTE_RESPONDER"], [BROKEN, DTO + "LOCAL_LENGTH"], []),
    "flood": ([BROKEN], [DTO + "REMOTE_RESPONDER"], [BROKEN, AFF + "REQ_DROPPED"], []),
    "down": ([OFFLINE, ONLINE, END], [], [OFFLINE, ONLINE, END], []),
    "remove": ([DEAD, END], [], [DEAD, END], []),  # the other side may be faster and disconnect
}
OTHERWISE = {
    # What had completed when the peer refused it is told by an event.
    "softrdma": {
        "access": ([BROKEN, DTO + "REMOTE_ACCESS|" + AFF + "R_ACCESS_VIOLATION"], [], [BROKEN, AFF + "RDMAW_ACCESS_VIOLATION"], []),
        "long": ([BROKEN], [AFF + "R_RECV_LENGTH_ERROR"], [BROKEN, DTO + "LOCAL_LENGTH"], []),
        "flood": ([BROKEN], [AFF + "R_ERROR"], [BROKEN, AFF + "REQ_DROPPED"], []),
    },
    # Each request is told how its own execution ended.
    "softrdma, wire local": {
        "access": ([BROKEN, DTO + "REMOTE_ACCESS"], [], [BROKEN, AFF + "RDMAW_ACCESS_VIOLATION"], []),
    },
    "rnic:siw0": {
        # A request that is on its way when the stream ends fails as an error of the QP.
        "disconnect": ([DISCONNECT], [], [END], [DTO + "LOCAL_EP"]),
        "kill": ([END], [DTO + "LOCAL_EP"], None, []),
        "free": ([], [], [END], [DTO + "LOCAL_EP"]),
        "down": ([OFFLINE, ONLINE, END], [DTO + "LOCAL_EP"], [OFFLINE, ONLINE, END], [DTO + "LOCAL_EP"]),
        "remove": ([DEAD, END], [DTO + "LOCAL_EP"], [DEAD, END], [DTO + "LOCAL_EP"]),
        # siw has no event for what it refused, or for a Terminate: the stream just ends.
        "access": ([END], [DTO + "LOCAL_EP"], [END], [DTO + "LOCAL_EP"]),
        # What the peer does may come before the connection is seen to be established: then it has failed.
        "long": ([END], [DTO + "LOCAL_EP"], [END + "|" + REFUSED], [DTO + "LOCAL_EP", DTO + "LOCAL_LENGTH", REJ + "OTHER"]),
        "flood": ([END], [DTO + "LOCAL_EP"], [END], [DTO + "LOCAL_EP"]),
    },
    "ib:rxe0": {
        # rxe has no event for a request that it refused. Its QP's state tells, unless the peer disconnects before that has changed.
        "access": ([BROKEN], [DTO + "REMOTE_ACCESS"], [END], [AFF + "FAILURE"]),
        # A request that finds no way fails as an error of the QP; an idle connection lives through it.
        "down": ([OFFLINE, ONLINE, END], [DTO + "LOCAL_EP"], [OFFLINE, ONLINE, END], [DTO + "LOCAL_EP"]),
        # rxe completes it as an error of the QP.
        "long": ([BROKEN], [DTO + "REMOTE_RESPONDER"], [BROKEN, DTO + "LOCAL_EP|" + DTO + "LOCAL_LENGTH"], []),
    },
}

# What cannot happen on that interface, and why: such a case does not exist.
NOT_THERE = {
    ("softrdma", "down"): "its connections are the host's TCP connections",
    ("softrdma", "remove"): "there is no device",
    ("ib:rxe0", "flood"): "a receiver that is not ready is asked again without end (RNR retries 7)",
}
BOTH = ("kill", "free", "down", "remove")  # idle connections, too


class Case:
    def __init__(self, interface, fault, actor, traffic, polling, wire):
        self.interface, self.fault, self.actor, self.traffic, self.polling = interface, fault, actor, traffic, polling
        self.kind = interface + wire
        self.name = "%s: %s by the %s, %s, %s" % (
            self.kind, fault, actor, "under traffic" if traffic else "idle", "polling" if polling else "waiting")

    def events(self):
        return OTHERWISE[self.kind].get(self.fault, EVENTS[self.fault])

    def arguments(self, side, command=None):
        """Of itfault, but address and port. command: what the fault is made by, and what undoes it; where it is one of the shell's."""
        awaited, allowed, peer_awaited, peer_allowed = self.events()
        acts = side == self.actor
        words = ["-I", self.interface] + ["-b"] * self.polling + ["-i"] * (not self.traffic)
        if acts:
            words += ["-a", command[0] if command else self.fault]
        if acts and command and command[1]:
            words += ["-A", "%s=%s" % command[1]]
        if acts and self.fault == "down":
            words += ["-D", ONLINE]  # a connection may live through it
        for name in (awaited if acts else peer_awaited) or []:
            words += ["-e", name]
        for name in allowed if acts else peer_allowed:
            words += ["-o", name]
        return words

    def judge(self, side, status, text):
        """What is wrong with what that side did; empty: nothing."""
        if self.events()[2] is None and side != self.actor:
            return "" if status in (-9, 137) else "%s: status %d, but it was to be killed\n%s" % (side, status, text)
        if status == 0 and re.search(r"^freed: \+0 threads, \+0 descriptors$", text, re.MULTILINE):
            return ""
        return "%s: status %d\n%s" % (side, status, text)


def cases(interface, wire=""):
    """wire: what stands behind the interface's name in OTHERWISE."""
    for fault in EVENTS:
        if (interface, fault) in NOT_THERE:
            continue
        loads = (True, False) if fault in BOTH else (True,)
        for actor, traffic, polling in itertools.product(("client", "server"), loads, (False, True)):
            yield Case(interface, fault, actor, traffic, polling, wire)


def silent(interface, polling, timeout):
    """Arguments of a client that connects where nobody answers."""
    return ["-I", interface] + ["-b"] * polling + ["-T", str(timeout), "-e", REFUSED, "-e", REJ + "TIMEOUT"]
