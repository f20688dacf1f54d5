import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.share.ShareCoordinatorConfig;
import org.apache.kafka.coordinator.share.ShareCoordinatorRecordSerde;
import org.apache.kafka.coordinator.share.ShareCoordinatorShard;
import org.apache.kafka.coordinator.share.ShareGroupOffset;
import org.apache.kafka.coordinator.share.metrics.ShareCoordinatorMetrics;
import org.apache.kafka.server.share.SharePartitionKey;
import org.apache.kafka.server.share.persister.PersisterStateBatch;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Kafka's own share coordinator shard replays records of one topic: for each line of standard input (group, topic id,
 * partition, key and value in hex, tabs between; the value of a tombstone is empty) a line with the state of the share
 * partition afterwards as JSON, null if there is none. A release leaves out the fields that it lacks.
 */
public class ReplayShareState {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final String[] FIELDS = {
        "snapshotEpoch", "stateEpoch", "leaderEpoch", "startOffset", "deliveryCompleteCount", "createTimestamp", "writeTimestamp"
    };

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        ShareCoordinatorRecordSerde serde = new ShareCoordinatorRecordSerde();
        ShareCoordinatorShard shard = shard();
        // Open to Kafka's package only.
        Method state = ShareCoordinatorShard.class.getDeclaredMethod("getShareStateMapValue", SharePartitionKey.class);
        state.setAccessible(true);
        long offset = 0;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] fields = line.split("\t", -1);
            SharePartitionKey key = SharePartitionKey.getInstance(
                fields[0], Uuid.fromString(fields[1]), Integer.parseInt(fields[2]));
            ByteBuffer value = fields[4].isEmpty() ? null : ByteBuffer.wrap(HexFormat.of().parseHex(fields[4]));
            CoordinatorRecord record = serde.deserialize(ByteBuffer.wrap(HexFormat.of().parseHex(fields[3])), value);
            shard.replay(offset++, -1L, (short) -1, record);
            out.println(json((ShareGroupOffset) state.invoke(shard, key)));
        }
        out.flush();
    }

    private static ShareCoordinatorShard shard() throws ReflectiveOperationException {
        AbstractConfig config = new AbstractConfig(ShareCoordinatorConfig.CONFIG_DEF, Map.of(), false);
        return new ShareCoordinatorShard.Builder(new ShareCoordinatorConfig(config))
            .withSnapshotRegistry(snapshots())
            .withTime(Time.SYSTEM)
            .withCoordinatorMetrics(new ShareCoordinatorMetrics(new Metrics()))
            .withTopicPartition(new TopicPartition("__share_group_state", 0))
            .build();
    }

    /** The package of LogContext, its one argument, differs between releases. */
    private static SnapshotRegistry snapshots() throws ReflectiveOperationException {
        Constructor<?> constructor = Arrays.stream(SnapshotRegistry.class.getConstructors())
            .filter(one -> one.getParameterCount() == 1).findFirst().orElseThrow();
        Object logContext = constructor.getParameterTypes()[0].getConstructor().newInstance();
        return (SnapshotRegistry) constructor.newInstance(logContext);
    }

    private static String json(ShareGroupOffset state) throws ReflectiveOperationException {
        if (state == null) {
            return "null";
        }
        ObjectNode node = MAPPER.createObjectNode();
        for (String field : FIELDS) {
            try {
                node.put(field, ((Number) ShareGroupOffset.class.getMethod(field).invoke(state)).longValue());
            } catch (NoSuchMethodException lacking) {
                continue;
            }
        }
        ArrayNode batches = node.putArray("stateBatches");
        for (PersisterStateBatch batch : state.stateBatches()) {
            batches.addArray().add(batch.firstOffset()).add(batch.lastOffset())
                .add(batch.deliveryState()).add(batch.deliveryCount());
        }
        return node.toString();
    }
}
