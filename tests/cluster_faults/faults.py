"""Faults of a cluster: brokers that are killed, stopped or cut off, and elections."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.cluster_faults.stage import Stage

# The lengths of the faults themselves. Nothing can be polled for: the time has to pass.
_STALL_S = 20.0
_OUTAGE_S = 60.0
_LEADERLESS_S = 15.0


def leader_moves(stage: Stage) -> None:
    """Every log partition gets another leader, five times."""
    for _ in range(5):
        stage.move_leaders()
        # The fault itself: the next election comes at once, or after the query has recovered.
        stage.wait(stage.choose.uniform(0, 2))


def broker_killed(stage: Stage) -> None:
    """A leader is killed and comes back when others lead."""
    node_id = stage.choose.choice(sorted(stage.leaders().values()))
    stage.cluster.brokers[node_id].kill()
    stage.await_leaders(but_not=node_id)
    stage.wait(_LEADERLESS_S)
    stage.whole()


def broker_stalled(stage: Stage) -> None:
    """A leader is stopped (SIGSTOP) and goes on when others lead."""
    node_id = stage.choose.choice(sorted(stage.leaders().values()))
    broker = stage.cluster.brokers[node_id]
    broker.pause()
    stage.await_leaders(but_not=node_id)
    stage.wait(_STALL_S)
    broker.resume()
    stage.whole()


def all_brokers_down(stage: Stage) -> None:
    """Every broker is killed, and all come back after a minute."""
    for broker in stage.cluster.brokers.values():
        broker.kill()
    stage.wait(_OUTAGE_S)
    stage.whole()


def coordinator_moved(stage: Stage) -> None:
    """The coordinator is killed between the offsets of a transaction and its commit."""
    stage.commit_across_a_move("moved", stage.choose.randrange(1_000_000))
    stage.whole()


def unclean_election(stage: Stage) -> None:
    """Records are lost that `run` has read: only the leader had them, and it is down."""
    leader, another = _lead_alone(stage, 10)
    stage.elect_instead(leader, another)


def former_leader(stage: Stage) -> None:
    """The same, and then the leader before is elected again: nobody has copied its records.

    Its log is longer than that of the leader between, so only leader epochs show the difference.
    """
    leader, another = _lead_alone(stage, 400)
    stage.elect_instead(leader, another)
    stage.await_reloaded()
    stage.commit(stage.group_id, *range(1, 6))
    stage.await_read()
    stage.elect_instead(another, leader)


def _lead_alone(stage: Stage, commits: int) -> tuple[int, int]:
    """Commit offsets that only their leader has; return it, and another broker."""
    leader = stage.leaders()[stage.log_partition]
    others = [node_id for node_id in stage.cluster.brokers if node_id != leader]
    stage.allow_unclean_election()
    for node_id in others:
        stage.cluster.brokers[node_id].kill()
    stage.await_in_sync({leader})
    stage.commit(stage.group_id, *range(1, commits + 1))
    stage.await_read()
    return leader, others[0]


FAULTS: Mapping[str, Callable[[Stage], None]] = {
    "leader-moves": leader_moves,
    "broker-killed": broker_killed,
    "broker-stalled": broker_stalled,
    "all-brokers-down": all_brokers_down,
    "coordinator-moved": coordinator_moved,
    "unclean-election": unclean_election,
    "former-leader": former_leader,
}
