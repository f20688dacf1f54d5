import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A share consumer (KIP-932) that acknowledges records in turn: accepted, released, rejected.
 * Arguments: bootstrap servers, share group, topic, number of acknowledgements after which it ends.
 */
public class ShareConsumer {
    private static final AcknowledgeType[] TYPES = {
        AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT
    };

    public static void main(String[] arguments) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("group.id", arguments[1]);
        properties.put("share.acknowledgement.mode", "explicit");
        properties.put("max.poll.records", 5);
        properties.put("key.deserializer", StringDeserializer.class.getName());
        properties.put("value.deserializer", StringDeserializer.class.getName());
        int left = Integer.parseInt(arguments[3]);
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(properties)) {
            consumer.subscribe(List.of(arguments[2]));
            while (left > 0) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(1))) {
                    consumer.acknowledge(record, TYPES[Math.floorMod(left--, TYPES.length)]);
                }
                consumer.commitSync();
            }
        }
    }
}
