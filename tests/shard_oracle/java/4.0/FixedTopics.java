package org.apache.kafka.coordinator.group;

import com.fasterxml.jackson.databind.JsonNode;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;

import java.util.List;

/** The topics of a cluster up to Kafka 4.1: name, id and number of partitions, without racks. */
final class FixedTopics {
    private static final int BROKER = 1;

    private FixedTopics() {
    }

    static MetadataImage of(JsonNode topics) {
        MetadataDelta delta = new MetadataDelta(MetadataImage.EMPTY);
        delta.replay(new RegisterBrokerRecord().setBrokerId(BROKER));
        topics.fields().forEachRemaining(entry -> {
            Uuid id = Uuid.fromString(entry.getValue().get("id").asText());
            delta.replay(new TopicRecord().setName(entry.getKey()).setTopicId(id));
            int partitions = entry.getValue().get("partitions").asInt();
            for (int partition = 0; partition < partitions; partition++) {
                delta.replay(new PartitionRecord()
                    .setTopicId(id)
                    .setPartitionId(partition)
                    .setReplicas(List.of(BROKER))
                    .setIsr(List.of(BROKER))
                    .setLeader(BROKER));
            }
        });
        return delta.apply(MetadataProvenance.EMPTY);
    }
}
