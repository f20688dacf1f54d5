import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.MessageFormatter;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.tools.consumer.GroupMetadataMessageFormatter;
import org.apache.kafka.tools.consumer.OffsetsMessageFormatter;

/**
 * What Kafka reads in records: for each line of standard input (record type, key and value in hex, tabs between) a line
 * with the value as JSON, or null where Kafka refuses it. Types 0 to 2 go through the message formatters.
 */
public class ReadRecords {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final GroupCoordinatorRecordSerde SERDE = new GroupCoordinatorRecordSerde();
    private static final MessageFormatter OFFSETS = new OffsetsMessageFormatter();
    private static final MessageFormatter GROUPS = new GroupMetadataMessageFormatter();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] fields = line.split("\t", -1);
            byte[] key = HexFormat.of().parseHex(fields[1]);
            byte[] value = HexFormat.of().parseHex(fields[2]);
            int type = Integer.parseInt(fields[0]);
            String read;
            try {
                read = type > 2 ? converted(key, value) : formatted(type == 2 ? GROUPS : OFFSETS, key, value);
            } catch (RuntimeException error) {
                read = "null";
            }
            out.println(read);
        }
        out.flush();
    }

    private static String formatted(MessageFormatter formatter, byte[] key, byte[] value) throws Exception {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        PrintStream printed = new PrintStream(bytes, true, StandardCharsets.UTF_8);
        formatter.writeTo(new ConsumerRecord<>("__consumer_offsets", 0, 0L, key, value), printed);
        return MAPPER.readTree(bytes.toString(StandardCharsets.UTF_8)).get("value").toString();
    }

    private static String converted(byte[] key, byte[] value) {
        ApiMessageAndVersion read = SERDE.deserialize(ByteBuffer.wrap(key), ByteBuffer.wrap(value)).value();
        ObjectNode node = MAPPER.createObjectNode();
        node.put("version", read.version());
        node.set("data", CoordinatorRecordJsonConverters.writeRecordValueAsJson(read.message(), read.version()));
        return node.toString();
    }
}
