"""Makes the vectors of tests/aqm: what the pseudo-code of the RFCs does with packets, step by step.

It follows RFC 8289 s5, RFC 8290 s4, RFC 8033 appendix A and RFC 9332 appendix A, in floating point as they
have it, and knows nothing of the engine. `python3 judge.py` writes the files beside it; a line is an operation and what
must come of it.

    e TIME_US ID LEN ECN FLOW   a packet comes
    d TIME_US = IDS | ID CE     the link asks: dropped now, then the packet that is served, and 1 if it is marked
"""

import math
import pathlib
import random

HERE = pathlib.Path(__file__).parent
MTU = 1500


class Codel:
    """RFC 8289 s5, over the packets of `queue`, a list of [time, id, len, ecn]; `backlog` says how many bytes wait."""

    def __init__(self, queue, backlog, target=0.005, interval=0.1):
        self.q, self.backlog, self.target, self.interval = queue, backlog, target, interval
        self.first_above_time = self.drop_next = 0.0
        self.count = self.lastcount = 0
        self.dropping = False

    def control_law(self, t, count):
        return t + self.interval / math.sqrt(count)

    def dodeque(self, now):
        if not self.q:
            self.first_above_time = 0
            return None, False
        p = self.q.pop(0)
        ok = False
        if now - p[0] < self.target - 1e-12 or self.backlog() <= MTU:
            self.first_above_time = 0
        elif self.first_above_time == 0:
            self.first_above_time = now + self.interval
        elif now >= self.first_above_time - 1e-12:
            ok = True
        return p, ok

    def mark(self, p):
        if p[3] == 0:
            return False
        p[3] = 3
        return True

    def deque(self, now, dropped):
        p, ok = self.dodeque(now)
        if self.dropping:
            if not ok:
                self.dropping = False
            while now >= self.drop_next and self.dropping:
                self.count += 1
                if self.mark(p):
                    self.drop_next = self.control_law(self.drop_next, self.count)
                    return p
                dropped.append(p[1])
                p, ok = self.dodeque(now)
                if not ok:
                    self.dropping = False
                else:
                    self.drop_next = self.control_law(self.drop_next, self.count)
        elif ok:
            if not self.mark(p):
                dropped.append(p[1])
                p, ok = self.dodeque(now)
            self.dropping = True
            delta = self.count - self.lastcount
            self.count = 1
            if delta > 1 and now - self.drop_next < 16 * self.interval:
                self.count = delta
            self.drop_next = self.control_law(now, self.count)
            self.lastcount = self.count
        return p


class OneCodel:
    def __init__(self):
        self.q = []
        self.codel = Codel(self.q, lambda: sum(p[2] for p in self.q))

    def enque(self, p, flow):
        self.q.append(p)

    def deque(self, now, dropped):
        return self.codel.deque(now, dropped)


class FqCodel:
    """RFC 8290 s4.1 and s4.2, with a queue for each flow: the test gives the engine so many that none share one."""

    QUANTUM = 1514

    def __init__(self):
        self.flows, self.new, self.old = {}, [], []

    def backlog(self):
        return sum(p[2] for f in self.flows.values() for p in f["q"])

    def enque(self, p, flow):
        if flow not in self.flows:
            q = []
            self.flows[flow] = {"q": q, "codel": Codel(q, self.backlog), "credits": 0}
        self.flows[flow]["q"].append(p)
        if flow not in self.new and flow not in self.old:
            self.new.append(flow)
            self.flows[flow]["credits"] = self.QUANTUM

    def deque(self, now, dropped):
        while self.new or self.old:
            of = self.new if self.new else self.old
            name = of[0]
            flow = self.flows[name]
            if flow["credits"] <= 0:
                flow["credits"] += self.QUANTUM
                of.pop(0)
                self.old.append(name)
                continue
            p = flow["codel"].deque(now, dropped)
            if p is None:
                of.pop(0)
                if of is self.new and self.old:
                    self.old.append(name)
                continue
            flow["credits"] -= p[2]
            return p
        return None


class DualPi2:
    """RFC 9332 appendix A.1 with the weighted scheduler and the overload of A.2 (s4.2.2)."""

    def __init__(self, target=0.015, min_th=0.0008, rng=0.0004, rtt_max=0.1):
        self.l, self.c = [], []
        self.target, self.min_th, self.range = target, min_th, rng
        self.tupdate = min(target, rtt_max / 3)
        self.alpha, self.beta = 0.1 * self.tupdate / rtt_max**2, 0.3 / rtt_max
        self.p = self.prevq = 0.0
        self.next = self.tupdate
        self.count = {"l": 0.0, "c": 0.0}
        self.credit = 0

    def update(self, now):
        while self.next <= now + 1e-12:
            curq = self.next - self.c[0][0] if self.c else 0.0
            self.p += self.alpha * (curq - self.target) + self.beta * (curq - self.prevq)
            self.p = min(max(self.p, 0.0), 1.0)
            self.prevq = curq
            self.next += self.tupdate

    def recur(self, which, likelihood):
        self.count[which] += likelihood
        if self.count[which] >= 1 - 1e-12:
            self.count[which] -= 1
            return True
        return False

    def enque(self, p, flow):
        self.update(p[0])
        (self.l if p[3] % 2 == 1 else self.c).append(p)

    def laqm(self, wait):
        if wait >= self.min_th + self.range - 1e-12:
            return 1.0
        return max(0.0, (wait - self.min_th) / self.range)

    def deque(self, now, dropped):
        self.update(now)
        p_cl, p_c = 2 * self.p, self.p**2
        while self.l or self.c:
            low = self.l and (not self.c or self.credit <= 0)
            p = (self.l if low else self.c).pop(0)
            if self.l and self.c:
                self.credit += (10 if low else -90) * p[2]
            if low:
                if p_cl >= 1 and self.recur("c", p_c):
                    dropped.append(p[1])
                    continue
                own = self.laqm(now - p[0]) if self.l else 0.0
                if self.recur("l", min(1.0, max(own, p_cl))):
                    p[3] = 3
                return p
            if self.recur("c", p_c):
                if p[3] == 0 or p_cl >= 1:
                    dropped.append(p[1])
                    continue
                p[3] = 3
            return p
        return None


def write(name, aqm, arrivals, rate_bps, seconds):
    """Arrivals and a link of this rate; a packet that comes while the link is idle does not queue."""
    lines, events, free = [], sorted(arrivals), 0.0
    waiting = 0
    i = 0
    while i < len(events) or waiting > 0:
        if waiting > 0 and (i == len(events) or free <= events[i][0] / 1e6):
            us = math.ceil(free * 1e6)
            dropped = []
            p = aqm.deque(us / 1e6, dropped)
            waiting -= len(dropped) + (p is not None)
            served = f"{p[1]} {int(p[3] == 3)}" if p else "-"
            lines.append(f"d {us} = {','.join(map(str, dropped)) or '-'} | {served}")
            free = us / 1e6 + (p[2] * 8 / rate_bps if p else 0)
            continue
        us, number, length, ecn, flow = events[i]
        i += 1
        if free <= us / 1e6 and waiting == 0:
            free = us / 1e6 + length * 8 / rate_bps
            continue
        aqm.enque([us / 1e6, number, length, ecn], flow)
        waiting += 1
        lines.append(f"e {us} {number} {length} {ecn} {flow}")
    drops = sum(0 if " = -" in line else 1 for line in lines if line[0] == "d")
    marks = sum(line.endswith(" 1") for line in lines if line[0] == "d")
    (HERE / f"{name}.txt").write_text("\n".join(lines) + "\n")
    print(f"{name}: {len(lines)} lines, {drops} with drops, {marks} marks")


def load(seed, seconds, flows, rate_bps):
    """Packets of some flows, each for a part of the time, in all now more and now less than the link can carry."""
    rng = random.Random(seed)
    arrivals, number = [], 0
    for flow, (share, ecn, length) in enumerate(flows):
        t = rng.random() * 0.05
        while t < seconds:
            surge = 1.6 if int(t / 0.7 + flow) % 3 else 0.3
            t += rng.expovariate(1) * length * 8 / (rate_bps * share * surge)
            arrivals.append((round(t * 1e6), number, length, ecn, flow))
            number += 1
    return [(us, n, length, ecn, flow) for n, (us, _, length, ecn, flow) in enumerate(sorted(arrivals))]


def pi_table():
    """RFC 8033 appendix A, `calculate_drop_prob`, with s5.5: the delays in ms, and the probability after each."""
    rng = random.Random(8033)
    p = old = 0.0
    lines, q = [], 0.0
    for _ in range(400):
        q = max(0.0, q + rng.choice([-9, -4, -1, 0, 2, 5, 8]) * rng.random()) if rng.random() < 0.93 else 0.0
        q = round(q, 3)
        d, o = q / 1e3, old
        change = 0.125 * (d - 0.015) + 1.25 * (d - o)
        for below, by in ((1e-6, 2048), (1e-5, 512), (1e-4, 128), (1e-3, 32), (1e-2, 8), (1e-1, 2)):
            if p < below:
                change /= by
                break
        if p >= 0.1:
            change = min(change, 0.02)
        p += change
        if d == 0 and o == 0:
            p *= 0.98
        p = min(max(p, 0.0), 1.0)
        old = d
        lines.append(f"{q} {p:.12f}")
    (HERE / "pie.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    mixed = [(0.5, 0, 1500), (0.3, 2, 1500), (0.3, 0, 700)]
    write("codel", OneCodel(), load(1, 4, mixed, 2e6), 2e6, 4)
    write("fq_codel", FqCodel(), load(2, 3, [*mixed, (0.05, 0, 100)], 2e6), 2e6, 3)
    write("dualpi2", DualPi2(), load(3, 3, [(0.6, 0, 1500), (0.3, 2, 1500), (0.5, 1, 1500)], 2e6), 2e6, 3)
    pi_table()
