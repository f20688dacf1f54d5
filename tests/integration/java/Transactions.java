import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Producers with one transactional id each: transactions that are committed, aborted, ongoing, timed out or
 * fenced, and a producer without a transaction.
 * Arguments: bootstrap servers, topic, prefix of the transactional ids, transaction timeout in ms of the
 * ongoing transactions, and of the one that times out.
 */
public class Transactions {
    private final String bootstrapServers;
    private final String topic;
    private final String prefix;

    private Transactions(String bootstrapServers, String topic, String prefix) {
        this.bootstrapServers = bootstrapServers;
        this.topic = topic;
        this.prefix = prefix;
    }

    public static void main(String[] arguments) {
        Transactions transactions = new Transactions(arguments[0], arguments[1], arguments[2]);
        int timeoutMs = Integer.parseInt(arguments[3]);

        KafkaProducer<String, String> payer = transactions.producer("payer", timeoutMs);
        for (int number = 0; number < 2; number++) {
            transactions.begin(payer);
            payer.commitTransaction();
        }
        KafkaProducer<String, String> auditor = transactions.producer("auditor", timeoutMs);
        transactions.begin(auditor);
        auditor.abortTransaction();

        KafkaProducer<String, String> sleeper = transactions.producer("sleeper", timeoutMs);
        transactions.begin(sleeper);
        sleeper.sendOffsetsToTransaction(
            Map.of(new TopicPartition(transactions.topic, 0), new OffsetAndMetadata(1)),
            new ConsumerGroupMetadata(transactions.prefix + "sleepers"));

        transactions.begin(transactions.producer("late", Integer.parseInt(arguments[4])));
        transactions.producer("idle", timeoutMs);

        transactions.begin(transactions.producer("victim", timeoutMs));
        KafkaProducer<String, String> successor = transactions.producer("victim", timeoutMs);
        transactions.begin(successor);
        successor.commitTransaction();

        // A producer that is closed aborts its transaction.
        Runtime.getRuntime().halt(0);
    }

    private KafkaProducer<String, String> producer(String name, int timeoutMs) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrapServers);
        properties.put("transactional.id", prefix + name);
        properties.put("transaction.timeout.ms", timeoutMs);
        properties.put("key.serializer", StringSerializer.class.getName());
        properties.put("value.serializer", StringSerializer.class.getName());
        KafkaProducer<String, String> producer = new KafkaProducer<>(properties);
        producer.initTransactions();
        return producer;
    }

    /** Begins a transaction with records in two partitions. */
    private void begin(KafkaProducer<String, String> producer) {
        producer.beginTransaction();
        for (int number = 0; number < 4; number++) {
            producer.send(new ProducerRecord<>(topic, number % 2, null, "value"));
        }
        producer.flush();
    }
}
