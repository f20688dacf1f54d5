package org.apache.kafka.coordinator.group;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.message.*;
import org.apache.kafka.common.network.ClientInformation;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.coordinator.common.runtime.CoordinatorOperationExceptionHelper;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorResult;
import org.slf4j.Logger;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;

/**
 * Requests of clients, by Kafka's own JSON of its messages, as GroupCoordinatorService hands them on.
 *
 * <p>A question has the {@code version} of a request, its {@code clientId} and its {@code data}; a
 * join or sync, which may wait, an {@code id} under which it is answered.
 */
final class ShardRequests {
    private static final long NO_PRODUCER_ID = -1L;
    private static final short NO_PRODUCER_EPOCH = -1;
    private static final Logger LOG = KafkaApi.logger(ShardRequests.class);

    /** Appends what an operation wants to be written, or throws why it cannot. */
    interface Append {
        void accept(
            CoordinatorResult<?, CoordinatorRecord> result, long producerId, short producerEpoch);
    }

    /** Something to be done that may be refused. */
    interface Operation {
        void run();
    }

    /** A join or sync, and its answer as JSON. */
    private record Waiting<T>(CompletableFuture<T> response, Function<T, JsonNode> json) {
        JsonNode answer() {
            return json.apply(response.join());
        }
    }

    private final GroupCoordinatorShard shard;
    private final Append append;
    private final Map<String, Waiting<?>> waiting = new LinkedHashMap<>();

    ShardRequests(GroupCoordinatorShard shard, Append append) {
        this.shard = shard;
        this.append = append;
    }

    /** Answers of joins and syncs that have one since the last question. */
    ObjectNode done() {
        ObjectNode done = ShardOracle.JSON.createObjectNode();
        waiting.forEach((id, one) -> {
            if (one.response.isDone()) {
                done.set(id, one.answer());
            }
        });
        waiting.values().removeIf(one -> one.response.isDone());
        return done;
    }

    /** Does something; the error that a client is told where that is refused. */
    Errors errorOf(Operation operation) {
        try {
            operation.run();
            return Errors.NONE;
        } catch (RuntimeException e) {
            return CoordinatorOperationExceptionHelper.handleOperationException(
                "request", "", e, (error, message) -> error, LOG);
        }
    }

    void ask(JsonNode question, ObjectNode answer) {
        Errors error = errorOf(() -> {
            JsonNode response = response(question);
            if (response != null) {
                answer.set("response", response);
            }
        });
        answer.put("errorCode", error.code());
    }

    private JsonNode response(JsonNode question) {
        JsonNode data = question.get("data");
        short version = question.get("version").shortValue();
        String id = question.path("id").asText();
        switch (question.get("ask").asText()) {
            case "JoinGroup": {
                var response = new CompletableFuture<JoinGroupResponseData>();
                waiting.put(id, new Waiting<>(response, one -> JoinGroupResponseDataJsonConverter
                    .write(one, JoinGroupResponseData.HIGHEST_SUPPORTED_VERSION)));
                Errors error = errorOf(() -> appended(KafkaApi.join(
                    shard, context(ApiKeys.JOIN_GROUP, question),
                    JoinGroupRequestDataJsonConverter.read(data, version), response)));
                // Only the first answer counts.
                if (error != Errors.NONE) {
                    response.complete(new JoinGroupResponseData().setErrorCode(error.code()));
                }
                return null;
            }
            case "SyncGroup": {
                var response = new CompletableFuture<SyncGroupResponseData>();
                waiting.put(id, new Waiting<>(response, one -> SyncGroupResponseDataJsonConverter
                    .write(one, SyncGroupResponseData.HIGHEST_SUPPORTED_VERSION)));
                Errors error = errorOf(() -> appended(shard.classicGroupSync(
                    context(ApiKeys.SYNC_GROUP, question),
                    SyncGroupRequestDataJsonConverter.read(data, version), response)));
                if (error != Errors.NONE) {
                    response.complete(new SyncGroupResponseData().setErrorCode(error.code()));
                }
                return null;
            }
            case "Heartbeat":
                return HeartbeatResponseDataJsonConverter.write(
                    appended(shard.classicGroupHeartbeat(
                        context(ApiKeys.HEARTBEAT, question),
                        HeartbeatRequestDataJsonConverter.read(data, version))),
                    HeartbeatResponseData.HIGHEST_SUPPORTED_VERSION);
            case "LeaveGroup":
                return LeaveGroupResponseDataJsonConverter.write(
                    appended(shard.classicGroupLeave(
                        context(ApiKeys.LEAVE_GROUP, question),
                        LeaveGroupRequestDataJsonConverter.read(data, version))),
                    LeaveGroupResponseData.HIGHEST_SUPPORTED_VERSION);
            case "ConsumerGroupHeartbeat":
                return ConsumerGroupHeartbeatResponseDataJsonConverter.write(
                    appended(shard.consumerGroupHeartbeat(
                        context(ApiKeys.CONSUMER_GROUP_HEARTBEAT, question),
                        ConsumerGroupHeartbeatRequestDataJsonConverter.read(data, version))),
                    ConsumerGroupHeartbeatResponseData.HIGHEST_SUPPORTED_VERSION);
            default:
                return offsetResponse(question, data, version);
        }
    }

    private JsonNode offsetResponse(JsonNode question, JsonNode data, short version) {
        switch (question.get("ask").asText()) {
            case "OffsetCommit":
                return OffsetCommitResponseDataJsonConverter.write(
                    appended(shard.commitOffset(
                        context(ApiKeys.OFFSET_COMMIT, question),
                        OffsetCommitRequestDataJsonConverter.read(data, version))),
                    version);
            case "TxnOffsetCommit": {
                var request = TxnOffsetCommitRequestDataJsonConverter.read(data, version);
                var result = shard.commitTransactionalOffset(
                    context(ApiKeys.TXN_OFFSET_COMMIT, question), request);
                append.accept(result, request.producerId(), request.producerEpoch());
                return TxnOffsetCommitResponseDataJsonConverter.write(result.response(), version);
            }
            case "OffsetDelete":
                return OffsetDeleteResponseDataJsonConverter.write(
                    appended(shard.deleteOffsets(
                        context(ApiKeys.OFFSET_DELETE, question),
                        OffsetDeleteRequestDataJsonConverter.read(data, version))),
                    version);
            case "DeleteGroups": {
                List<String> groupIds = new ArrayList<>();
                data.get("groupsNames").forEach(name -> groupIds.add(name.asText()));
                var response = new DeleteGroupsResponseData().setResults(
                    appended(shard.deleteGroups(
                        context(ApiKeys.DELETE_GROUPS, question), groupIds)));
                return DeleteGroupsResponseDataJsonConverter.write(response, version);
            }
            case "OffsetFetch": {
                // At the end of the log a fetch is one that asks for what is stable.
                var response = new OffsetFetchResponseData().setGroups(List.of(
                    KafkaApi.fetchAll(
                        shard,
                        new OffsetFetchRequestData.OffsetFetchRequestGroup()
                            .setGroupId(data.get("groupId").asText()),
                        data.get("requireStable").asBoolean()
                            ? Long.MAX_VALUE : data.get("lastCommittedOffset").asLong())));
                return OffsetFetchResponseDataJsonConverter.write(response, version);
            }
            default:
                throw new IllegalArgumentException(question.toString());
        }
    }

    private <T> T appended(CoordinatorResult<T, CoordinatorRecord> result) {
        append.accept(result, NO_PRODUCER_ID, NO_PRODUCER_EPOCH);
        return result.response();
    }

    private static RequestContext context(ApiKeys api, JsonNode question) {
        InetAddress address;
        try {
            // Without a name: members are stored with what it prints.
            address = InetAddress.getByAddress(new byte[] {127, 0, 0, 1});
        } catch (UnknownHostException e) {
            throw new IllegalStateException(e);
        }
        RequestHeader header = new RequestHeader(
            api, question.get("version").shortValue(), question.path("clientId").asText(), 0);
        return new RequestContext(header, "1", address,
            KafkaPrincipal.ANONYMOUS, ListenerName.forSecurityProtocol(SecurityProtocol.PLAINTEXT),
            SecurityProtocol.PLAINTEXT, ClientInformation.EMPTY, false);
    }
}
