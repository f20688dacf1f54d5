import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.connect.runtime.distributed.ConnectProtocol;
import org.apache.kafka.connect.runtime.distributed.ExtendedAssignment;
import org.apache.kafka.connect.runtime.distributed.ExtendedWorkerState;
import org.apache.kafka.connect.runtime.distributed.IncrementalCooperativeConnectProtocol;
import org.apache.kafka.connect.util.ConnectorTaskId;

/** Member bytes as workers of Kafka Connect write them: a name and hex digits a line. */
public class MemberBytes {
    public static void main(String[] arguments) {
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

    private static void print(String name, ByteBuffer bytes) {
        byte[] raw = new byte[bytes.remaining()];
        bytes.get(raw);
        System.out.println(name + "\t" + HexFormat.of().formatHex(raw));
    }
}
