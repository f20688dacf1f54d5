package org.apache.kafka.coordinator.group;

import java.security.Provider;
import java.security.SecureRandomSpi;
import java.security.Security;
import java.util.Random;

/** The random numbers that UUIDs, and so member ids, are made of: the same in every run. */
public final class SeededIds extends SecureRandomSpi {
    private static Random random = new Random(0);

    static void install() {
        Security.insertProviderAt(new Provider("SeededIds", "1", "repeatable ids") {
            {
                put("SecureRandom.Seeded", SeededIds.class.getName());
            }
        }, 1);
    }

    static void begin(long seed) {
        random = new Random(seed);
    }

    @Override
    protected void engineNextBytes(byte[] bytes) {
        random.nextBytes(bytes);
    }

    @Override
    protected byte[] engineGenerateSeed(int count) {
        return new byte[count];
    }

    @Override
    protected void engineSetSeed(byte[] seed) {
    }
}
