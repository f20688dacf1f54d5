package org.apache.kafka.coordinator.group;

import org.apache.kafka.common.errors.CoordinatorLoadInProgressException;
import org.apache.kafka.common.errors.NotCoordinatorException;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorResult;
import org.apache.kafka.coordinator.common.runtime.CoordinatorTimer;

import java.util.Comparator;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * The timers of a coordinator, which fire when it is told that time has passed.
 *
 * <p>Types are raw, because the interface has two parameters up to Kafka 4.2 and one since 4.3.
 */
@SuppressWarnings({"rawtypes", "unchecked"})
final class VirtualTimer implements CoordinatorTimer {
    private static final long RETRY_BACKOFF_MS = 500;

    private final VirtualTime time;
    private final Map<String, Task> tasks = new HashMap<>();
    private long scheduled = 0;

    private record Task(
        String name, long dueMs, long number, boolean retry, long retryBackoffMs,
        TimeoutOperation operation) {
    }

    VirtualTimer(VirtualTime time) {
        this.time = time;
    }

    @Override
    public void schedule(
        String name, long delay, TimeUnit unit, boolean retry,
        TimeoutOperation operation) {
        schedule(name, delay, unit, retry, RETRY_BACKOFF_MS, operation);
    }

    @Override
    public void schedule(
        String name, long delay, TimeUnit unit, boolean retry, long retryBackoffMs,
        TimeoutOperation operation) {
        long dueMs = time.nowMs + unit.toMillis(delay);
        tasks.put(name, new Task(name, dueMs, scheduled++, retry, retryBackoffMs, operation));
    }

    @Override
    public void scheduleIfAbsent(
        String name, long delay, TimeUnit unit, boolean retry,
        TimeoutOperation operation) {
        if (!tasks.containsKey(name)) {
            schedule(name, delay, unit, retry, operation);
        }
    }

    @Override
    public void cancel(String name) {
        tasks.remove(name);
    }

    /** Of the interface since Kafka 4.2. */
    public boolean isScheduled(String name) {
        return tasks.containsKey(name);
    }

    void cancelAll() {
        tasks.clear();
    }

    /** Lets time pass; of timers that are due in one millisecond, the older fires first. */
    void advance(long nowMs, Consumer<CoordinatorResult<?, CoordinatorRecord>> append) {
        Comparator<Task> first = Comparator.comparingLong(Task::dueMs)
            .thenComparingLong(Task::number);
        while (true) {
            Task next = tasks.values().stream().min(first).orElse(null);
            if (next == null || next.dueMs > nowMs) {
                break;
            }
            tasks.remove(next.name);
            time.nowMs = Math.max(time.nowMs, next.dueMs);
            fire(next, append);
        }
        time.nowMs = nowMs;
    }

    private void fire(Task task, Consumer<CoordinatorResult<?, CoordinatorRecord>> append) {
        try {
            append.accept(task.operation.generateRecords());
        } catch (NotCoordinatorException | CoordinatorLoadInProgressException e) {
            // Somebody else has the group now.
            return;
        } catch (RuntimeException e) {
            if (task.retry) {
                schedule(task.name, task.retryBackoffMs, TimeUnit.MILLISECONDS, true,
                    task.retryBackoffMs, task.operation);
            }
        }
    }
}
