package org.apache.kafka.coordinator.group;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.TransactionResult;
import org.apache.kafka.coordinator.common.runtime.CoordinatorExecutor;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorResult;
import org.apache.kafka.coordinator.group.classic.ClassicGroup;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetrics;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroup;
import org.apache.kafka.timeline.SnapshotRegistry;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

/**
 * Kafka's own group coordinator of one log partition, in a time of its own.
 *
 * <p>Reads one question on each line of standard input, as JSON, and answers each with a line: what
 * the request is answered with, the records that were written, joins and syncs that were answered
 * by it, and what is held afterwards. {@code start} begins with an empty log.
 *
 * <p>It stands where CoordinatorRuntime does: records are replayed, then appended, and the state
 * goes back to what it was where they cannot be. Each operation is appended at once, as with
 * {@code group.coordinator.append.linger.ms=0}, so it is known what a failed append takes with it.
 * The class is in Kafka's package since the shard is open to no other.
 */
public final class ShardOracle {
    static final ObjectMapper JSON = new ObjectMapper();
    private static final long NO_PRODUCER_ID = -1L;
    private static final short NO_PRODUCER_EPOCH = -1;

    private final VirtualTime time;
    private final SnapshotRegistry snapshots;
    private final VirtualTimer timer;
    private final GroupCoordinatorShard shard;
    private final GroupMetadataManager groups;
    private final GroupCoordinatorRecordSerde serde = new GroupCoordinatorRecordSerde();
    private final ShardRequests requests;
    /** What the next appends meet with. */
    private Errors refusal = Errors.NONE;
    private long nextOffset = 0;
    private ArrayNode batches = JSON.createArrayNode();

    private ShardOracle(JsonNode start) throws ReflectiveOperationException {
        time = new VirtualTime(start.get("nowMs").asLong());
        snapshots = KafkaApi.snapshots();
        timer = new VirtualTimer(time);
        Map<String, Object> properties = new HashMap<>();
        start.get("config").fields().forEachRemaining(
            property -> properties.put(property.getKey(), property.getValue().asText()));
        GroupCoordinatorShard.Builder builder = KafkaApi.builder(properties);
        builder
            .withSnapshotRegistry(snapshots)
            .withTime(time)
            .withTimer(timer)
            .withExecutor(new IdleExecutor())
            .withCoordinatorMetrics(new GroupCoordinatorMetrics(
                new com.yammer.metrics.core.MetricsRegistry(), new Metrics()))
            .withTopicPartition(new TopicPartition("__consumer_offsets", 0));
        shard = builder.build();
        var field = GroupCoordinatorShard.class.getDeclaredField("groupMetadataManager");
        field.setAccessible(true);
        groups = (GroupMetadataManager) field.get(shard);
        requests = new ShardRequests(shard, this::append);
        snapshots.idempotentCreateSnapshot(nextOffset);
        shard.onLoaded(FixedTopics.of(start.get("topics")));
        // What a broker does now and then by itself is here done when it is asked for.
        timer.cancelAll();
        SeededIds.begin(start.get("seed").asLong());
    }

    /** Regular expressions are what needs another thread; nobody here subscribes with one. */
    private static final class IdleExecutor implements CoordinatorExecutor<CoordinatorRecord> {
        @Override
        public <R> boolean schedule(
            String key, TaskRunnable<R> task, TaskOperation<CoordinatorRecord, R> operation) {
            throw new UnsupportedOperationException(key);
        }

        @Override
        public boolean isScheduled(String key) {
            return false;
        }

        @Override
        public void cancel(String key) {
        }
    }

    /** As CoordinatorRuntime does it: replayed, appended, and forgotten where that fails. */
    private void append(
        CoordinatorResult<?, CoordinatorRecord> result, long producerId, short producerEpoch) {
        Throwable failure = null;
        if (!result.records().isEmpty()) {
            try {
                replayAndWrite(result, producerId, producerEpoch);
            } catch (RuntimeException e) {
                snapshots.revertToSnapshot(nextOffset);
                failure = e;
            }
        }
        if (result.appendFuture() != null) {
            if (failure == null) {
                result.appendFuture().complete(null);
            } else {
                result.appendFuture().completeExceptionally(failure);
            }
        }
        if (failure != null) {
            throw (RuntimeException) failure;
        }
    }

    private void replayAndWrite(
        CoordinatorResult<?, CoordinatorRecord> result, long producerId, short producerEpoch) {
        ArrayNode batch = JSON.createArrayNode();
        long offset = nextOffset;
        for (CoordinatorRecord record : result.records()) {
            if (result.replayRecords()) {
                shard.replay(offset, producerId, producerEpoch, record);
            }
            offset++;
            batch.addArray().add(serde.serializeKey(record)).add(serde.serializeValue(record));
        }
        if (refusal != Errors.NONE) {
            throw refusal.exception();
        }
        batches.add(batch);
        wroteUpTo(offset);
    }

    private void wroteUpTo(long offset) {
        nextOffset = offset;
        snapshots.idempotentCreateSnapshot(offset);
        snapshots.deleteSnapshotsUpTo(offset);
    }

    private ObjectNode answer(JsonNode question) throws IOException {
        batches = JSON.createArrayNode();
        ObjectNode answer = JSON.createObjectNode();
        switch (question.get("ask").asText()) {
            case "Advance" -> advance(question);
            case "Refuse" -> refusal = Errors.forCode(question.get("errorCode").shortValue());
            case "EndTransaction" -> {
                shard.replayEndTransactionMarker(
                    question.get("producerId").asLong(),
                    question.get("producerEpoch").shortValue(),
                    question.get("isCommit").asBoolean()
                        ? TransactionResult.COMMIT : TransactionResult.ABORT);
                wroteUpTo(nextOffset + 1);
            }
            case "Replay" -> replay(question.get("records"));
            case "Expire" -> answer.put("errorCode", requests.errorOf(() ->
                append(shard.cleanupGroupMetadata(), NO_PRODUCER_ID, NO_PRODUCER_EPOCH)).code());
            default -> requests.ask(question, answer);
        }
        timer.cancel(GroupCoordinatorShard.GROUP_EXPIRATION_KEY);
        answer.set("batches", batches);
        answer.set("done", requests.done());
        answer.set("groups", held());
        return answer;
    }

    /** Loads a log: records as key, value and producer, markers as a producer and an outcome. */
    private void replay(JsonNode records) throws IOException {
        for (JsonNode one : records) {
            long offset = one.get("offset").asLong();
            long producerId = one.get("producerId").asLong();
            short producerEpoch = one.get("producerEpoch").shortValue();
            if (one.has("isCommit")) {
                shard.replayEndTransactionMarker(producerId, producerEpoch,
                    one.get("isCommit").asBoolean()
                        ? TransactionResult.COMMIT : TransactionResult.ABORT);
            } else {
                ByteBuffer value = one.get("value").isNull()
                    ? null : ByteBuffer.wrap(one.get("value").binaryValue());
                shard.replay(offset, producerId, producerEpoch, serde.deserialize(
                    ByteBuffer.wrap(one.get("key").binaryValue()), value));
            }
            wroteUpTo(offset + 1);
        }
    }

    private void advance(JsonNode question) {
        timer.advance(question.get("nowMs").asLong(),
            result -> append(result, NO_PRODUCER_ID, NO_PRODUCER_EPOCH));
    }

    /** Every group: type, state, generation or epoch, leader, members. */
    private ObjectNode held() {
        ObjectNode held = JSON.createObjectNode();
        for (String groupId : groups.groupIds()) {
            Group group = groups.group(groupId);
            ObjectNode one = held.putObject(groupId)
                .put("type", group.type().toString())
                .put("state", group.stateAsString());
            ArrayNode members = one.putArray("members");
            if (group instanceof ClassicGroup classic) {
                one.put("epoch", classic.generationId())
                    .put("pending", classic.numPendingJoinMembers())
                    .put("leader", classic.leaderOrNull());
                classic.allMembers().forEach(member -> members.add(member.memberId()));
            } else if (group instanceof ConsumerGroup consumer) {
                one.put("epoch", consumer.groupEpoch());
                one.put("assignmentEpoch", consumer.assignmentEpoch());
                consumer.members().keySet().forEach(members::add);
            }
        }
        return held;
    }

    public static void main(String[] arguments) throws Exception {
        SeededIds.install();
        BufferedReader questions =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        ShardOracle oracle = null;
        for (String line; (line = questions.readLine()) != null;) {
            JsonNode question = JSON.readTree(line);
            ObjectNode answer = JSON.createObjectNode();
            try {
                if (question.get("ask").asText().equals("Start")) {
                    oracle = new ShardOracle(question);
                } else {
                    answer = oracle.answer(question);
                }
            } catch (RuntimeException | ReflectiveOperationException | IOException e) {
                StringWriter trace = new StringWriter();
                e.printStackTrace(new PrintWriter(trace));
                answer.put("crash", trace.toString());
            }
            answers.println(JSON.writeValueAsString(answer));
        }
    }
}
