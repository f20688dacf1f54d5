import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.runtime.distributed.ConnectProtocol;
import org.apache.kafka.connect.runtime.distributed.ExtendedAssignment;
import org.apache.kafka.connect.runtime.distributed.ExtendedWorkerState;
import org.apache.kafka.connect.runtime.distributed.IncrementalCooperativeConnectProtocol;
import org.apache.kafka.connect.util.ConnectorTaskId;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.internals.assignment.AssignmentInfo;
import org.apache.kafka.streams.processor.internals.assignment.SubscriptionInfo;
import org.apache.kafka.streams.state.HostInfo;

/** Member bytes as workers of Kafka Connect and applications of Kafka Streams write them: a name and hex digits a line. */
public class MemberBytes {
    private static final UUID PROCESS = new UUID(1, 2);

    public static void main(String[] arguments) {
        connect();
        for (int version = 1; version <= 11; version++) {
            print("SubscriptionInfo " + version, subscriptionInfo(version));
            print("AssignmentInfo " + version, assignmentInfo(version));
        }
    }

    private static void connect() {
        print("connect subscription 0", ConnectProtocol.serializeMetadata(new ConnectProtocol.WorkerState("http://w1:8083/", 7)));
        print("connect assignment 0", ConnectProtocol.serializeAssignment(new ConnectProtocol.Assignment(
            (short) 1, "w1", "http://w1:8083/", 7, List.of("sink"), List.of(new ConnectorTaskId("sink", 0), new ConnectorTaskId("sink", 1)))));
        for (short version = 1; version <= 2; version++) {
            boolean isSessioned = version == 2;
            ExtendedAssignment assignment = new ExtendedAssignment(
                version, (short) 0, "w1", "http://w1:8083/", 7,
                List.of("sink"), List.of(new ConnectorTaskId("sink", 1)), List.of(), List.of(new ConnectorTaskId("old", 3)), 300_000);
            print("connect assignment " + version, IncrementalCooperativeConnectProtocol.serializeAssignment(assignment, isSessioned));
            print("connect subscription " + version, IncrementalCooperativeConnectProtocol.serializeMetadata(
                new ExtendedWorkerState("http://w1:8083/", 7, assignment), isSessioned));
            print("connect subscription without assignment " + version, IncrementalCooperativeConnectProtocol.serializeMetadata(
                new ExtendedWorkerState("http://w1:8083/", 7, null), isSessioned));
        }
    }

    private static ByteBuffer subscriptionInfo(int version) {
        Map<TaskId, Long> offsetSums = new LinkedHashMap<>();
        offsetSums.put(new TaskId(0, 1, version >= 10 ? "named" : null), -2L);
        return new SubscriptionInfo(
            version, 11, new ProcessId(PROCESS), "host:8080", offsetSums, (byte) 3, 0, Map.of("zone", "eu-1")).encode();
    }

    private static ByteBuffer assignmentInfo(int version) {
        Set<TopicPartition> partitions = Set.of(new TopicPartition("orders", 1));
        return new AssignmentInfo(
            version, 11,
            List.of(new TaskId(0, 1, version >= 10 ? "named" : null), new TaskId(1, 0)),
            Map.of(new TaskId(0, 2), partitions),
            Map.of(new HostInfo("host", 8080), partitions),
            version >= 6 ? Map.of(new HostInfo("other", 8081), partitions) : Map.of(),
            version >= 4 ? 3 : 0).encode();
    }

    private static void print(String name, ByteBuffer bytes) {
        byte[] raw = new byte[bytes.remaining()];
        bytes.get(raw);
        System.out.println(name + "\t" + HexFormat.of().formatHex(raw));
    }
}
