package org.apache.kafka.coordinator.group;

import org.apache.kafka.common.utils.Time;

import java.util.function.Supplier;

/** A clock that stands still until it is set. */
final class VirtualTime implements Time {
    long nowMs;

    VirtualTime(long nowMs) {
        this.nowMs = nowMs;
    }

    @Override
    public long milliseconds() {
        return nowMs;
    }

    @Override
    public long nanoseconds() {
        return nowMs * 1_000_000;
    }

    @Override
    public void sleep(long ms) {
        throw new UnsupportedOperationException();
    }

    @Override
    public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
        throw new UnsupportedOperationException();
    }
}
