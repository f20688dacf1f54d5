package org.apache.kafka.coordinator.group;

import com.fasterxml.jackson.databind.JsonNode;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/** The topics of a cluster since Kafka 4.2: name, id and number of partitions, without racks. */
final class FixedTopics implements CoordinatorMetadataImage {
    private final Map<String, TopicMetadata> byName = new HashMap<>();
    private final Map<Uuid, TopicMetadata> byId = new HashMap<>();

    private record Topic(String name, Uuid id, int partitionCount) implements TopicMetadata {
        @Override
        public List<String> partitionRacks(int partition) {
            // The coordinator sorts it in place.
            return new ArrayList<>();
        }
    }

    static FixedTopics of(JsonNode topics) {
        return new FixedTopics(topics);
    }

    private FixedTopics(JsonNode topics) {
        topics.fields().forEachRemaining(entry -> {
            Uuid id = Uuid.fromString(entry.getValue().get("id").asText());
            Topic topic = new Topic(entry.getKey(), id, entry.getValue().get("partitions").asInt());
            byName.put(topic.name(), topic);
            byId.put(id, topic);
        });
    }

    @Override
    public Set<Uuid> topicIds() {
        return byId.keySet();
    }

    @Override
    public Set<String> topicNames() {
        return byName.keySet();
    }

    @Override
    public Optional<TopicMetadata> topicMetadata(String name) {
        return Optional.ofNullable(byName.get(name));
    }

    @Override
    public Optional<TopicMetadata> topicMetadata(Uuid id) {
        return Optional.ofNullable(byId.get(id));
    }

    @Override
    public CoordinatorMetadataDelta emptyDelta() {
        return CoordinatorMetadataDelta.EMPTY;
    }

    @Override
    public long version() {
        return 1;
    }

    @Override
    public boolean isEmpty() {
        return byName.isEmpty();
    }
}
