package org.apache.kafka.coordinator.group;

import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.message.JoinGroupRequestData;
import org.apache.kafka.common.message.JoinGroupResponseData;
import org.apache.kafka.common.message.OffsetFetchRequestData.OffsetFetchRequestGroup;
import org.apache.kafka.common.message.OffsetFetchResponseData.OffsetFetchResponseGroup;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorResult;
import org.apache.kafka.timeline.SnapshotRegistry;
import org.slf4j.Logger;

import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/** Calls whose names or parameters differ between Kafka 4.0 and 4.4, found by reflection. */
final class KafkaApi {
    private static final String UTILITIES = "org.apache.kafka.common.utils.";
    private static final String SHARE_CONFIG =
        "org.apache.kafka.coordinator.group.modern.share.ShareGroupConfig";

    private KafkaApi() {
    }

    static Logger logger(Class<?> of) {
        return (Logger) call(logContext(), "logger", of);
    }

    static SnapshotRegistry snapshots() {
        return (SnapshotRegistry) make(SnapshotRegistry.class, logContext());
    }

    static GroupCoordinatorShard.Builder builder(Map<String, Object> properties) {
        GroupCoordinatorConfig config =
            new GroupCoordinatorConfig(configOf(properties, GroupCoordinatorConfig.class));
        var builder = new GroupCoordinatorShard.Builder(config, groupConfigs(config));
        call(builder, "withLogContext", logContext());
        boolean hasPlugin = has(builder, "withAuthorizerPlugin");
        call(builder, hasPlugin ? "withAuthorizerPlugin" : "withAuthorizer", Optional.empty());
        return builder;
    }

    @SuppressWarnings("unchecked")
    static CoordinatorResult<?, CoordinatorRecord> join(
        GroupCoordinatorShard shard, RequestContext context, JoinGroupRequestData request,
        CompletableFuture<JoinGroupResponseData> response) {
        boolean isAuthorizedToConvert = false;
        Object[] arguments = {context, request, response, isAuthorizedToConvert};
        int count = method(shard, "classicGroupJoin").getParameterCount();
        return (CoordinatorResult<?, CoordinatorRecord>)
            call(shard, "classicGroupJoin", Arrays.copyOf(arguments, count));
    }

    static OffsetFetchResponseGroup fetchAll(
        GroupCoordinatorShard shard, OffsetFetchRequestGroup group, long lastCommittedOffset) {
        boolean hasOwnMethod = has(shard, "fetchAllOffsets");
        return (OffsetFetchResponseGroup) call(
            shard, hasOwnMethod ? "fetchAllOffsets" : "fetchOffsets",
            group.setTopics(null), lastCommittedOffset);
    }

    private static Object logContext() {
        try {
            return make(Class.forName(UTILITIES + "LogContext"));
        } catch (ClassNotFoundException before44) {
            return make(classNamed(UTILITIES + "internals.LogContext"));
        }
    }

    private static GroupConfigManager groupConfigs(GroupCoordinatorConfig config) {
        int count = GroupConfigManager.class.getConstructors()[0].getParameterCount();
        if (count == 1) {
            return (GroupConfigManager) make(GroupConfigManager.class, Map.of());
        }
        Class<?> shareConfig = classNamed(SHARE_CONFIG);
        Object share = make(shareConfig, configOf(Map.of(), shareConfig, GroupCoordinatorConfig.class));
        return (GroupConfigManager) (count == 2
            ? make(GroupConfigManager.class, config, share)
            : make(GroupConfigManager.class, Map.of(), config, share));
    }

    /** A configuration by the definitions of classes; in Kafka 4.0 a class has several. */
    private static AbstractConfig configOf(Map<String, Object> properties, Class<?>... classes) {
        ConfigDef all = new ConfigDef();
        Arrays.stream(classes).flatMap(of -> Arrays.stream(of.getFields()))
            .filter(field -> field.getType() == ConfigDef.class)
            .flatMap(field -> valueOf(field).configKeys().values().stream())
            .filter(key -> !all.configKeys().containsKey(key.name))
            .forEach(all::define);
        return new AbstractConfig(all, properties, false);
    }

    private static ConfigDef valueOf(Field field) {
        try {
            return (ConfigDef) field.get(null);
        } catch (IllegalAccessException e) {
            throw new IllegalStateException(e);
        }
    }

    private static Class<?> classNamed(String name) {
        try {
            return Class.forName(name);
        } catch (ClassNotFoundException e) {
            throw new IllegalStateException(e);
        }
    }

    private static boolean has(Object of, String name) {
        return Arrays.stream(of.getClass().getMethods()).anyMatch(one -> one.getName().equals(name));
    }

    /** The first method of a name that takes the first argument, if there is one. */
    private static Method method(Object of, String name, Object... arguments) {
        return Arrays.stream(of.getClass().getMethods())
            .filter(one -> one.getName().equals(name) && !one.isBridge())
            .filter(one -> arguments.length == 0
                || one.getParameterTypes()[0].isInstance(arguments[0]))
            .findFirst().orElseThrow(() -> new IllegalStateException(of.getClass() + "." + name));
    }

    private static Object make(Class<?> of, Object... arguments) {
        Constructor<?> constructor = Arrays.stream(of.getConstructors())
            .filter(one -> one.getParameterCount() == arguments.length)
            .findFirst().orElseThrow(() -> new IllegalStateException("no such constructor: " + of));
        try {
            return constructor.newInstance(arguments);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    private static Object call(Object of, String name, Object... arguments) {
        Method method = method(of, name, arguments);
        method.setAccessible(true);
        try {
            return method.invoke(of, arguments);
        } catch (InvocationTargetException e) {
            if (e.getCause() instanceof RuntimeException cause) {
                throw cause;
            }
            throw new IllegalStateException(e.getCause());
        } catch (IllegalAccessException e) {
            throw new IllegalStateException(e);
        }
    }
}
