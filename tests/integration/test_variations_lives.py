# SPDX-License-Identifier: Apache-2.0
"""Random lives: things made from each other and deleted in any order and manner, against reachability as a model.

What lives is what a named handle reaches through `owners`; so each delete has just one right answer. GMVD_RANDOM_LIVES is
the number of runs (4), GMVD_RANDOM_SEED the first seed; a failure tells its seed.
"""

import os
import random

import pytest

COUNT = int(os.environ.get("GMVD_RANDOM_LIVES", "4"))
FIRST = int(os.environ.get("GMVD_RANDOM_SEED", "0"))
STEPS = 50

COLLECTIONS = {"buffer": "buffers", "view": "views", "column": "columns", "table": "tables", "packed": "packed"}


class World:
    """The graph as the daemon tells it, and what follows from it."""

    def __init__(self, client):
        self.nodes = {}
        for handle in client.handles():
            state = client.get(f"/v1/handles/{handle['id']}")
            self.nodes[handle["id"]] = {**handle, "owners": state["owners"], "dependents": state["dependents"]}

    def reached(self, names):
        found, left = set(), list(names)
        while left:
            node = left.pop()
            if node not in found:
                found.add(node)
                left += self.nodes[node]["owners"]
        return found

    def named(self):
        return {node for node, state in self.nodes.items() if state["named"] and not state["deleted"]}

    def above(self, node):
        """Whatever depends on it, however far, and itself."""
        found, left = set(), [node]
        while left:
            node = left.pop()
            if node not in found:
                found.add(node)
                left += [other for other, state in self.nodes.items() if node in state["owners"]]
        return found

    def check(self):
        assert self.reached(self.named()) == set(self.nodes)
        for node, state in self.nodes.items():
            assert sorted(state["dependents"]) == sorted(other for other, its in self.nodes.items() if node in its["owners"])


class Life:
    def __init__(self, client, seed):
        self.client, self.rng = client, random.Random(seed)
        self.mine = {kind: [] for kind in COLLECTIONS}  # named, not deleted
        self.gone = []

    def pick(self, kind):
        return self.rng.choice(self.mine[kind]) if self.mine[kind] else None

    def keep(self, answer):
        for thing in answer.get("items", [answer.get("mask") or answer.get("column") or answer]):
            self.mine[thing["kind"]].append(thing["id"])

    def made(self, path, body):
        self.keep(self.client.post(path, body))

    def make(self):
        rng, client = self.rng, self.client
        view, column, table, packed = (self.pick(kind) for kind in ("view", "column", "table", "packed"))
        ways = [lambda: self.keep(client.upload(rng.randbytes(rng.choice([0, 8, 64, 4096]))))]
        if buffer := self.pick("buffer"):
            ways.append(lambda: self.made(f"/v1/buffers/{buffer}/views", {"typestr": "|u1", "shape": [0]}))
            nbytes = client.get(f"/v1/buffers/{buffer}")["nbytes"]
            ways += [lambda: self.made(f"/v1/buffers/{buffer}/views", {"typestr": "<i4", "shape": [nbytes // 4]})] * 3
        if view:
            ways += [lambda: self.made(f"/v1/views/{view}/byte_slice", {"start": rng.randrange(-9, 9), "stop": rng.choice([None, 8, -3])})] * 2
            ways.append(lambda: self.made(f"/v1/views/{view}/copy", {}))
            ways.append(lambda: self.made("/v1/columns/from_view", {"view": view}))
            rows = rng.randrange(9)
            if client.get(f"/v1/views/{view}")["nbytes"] >= rows:
                ways += [lambda: self.made("/v1/columns", {"type": {"name": "UINT8"}, "size": rows, "data": view,
                                                           "null_mask": view if rng.random() < 0.5 else None})] * 3
        if column:
            ways.append(lambda: self.made("/v1/kernels/copy_bitmask", {"column": column}))
            ways.append(lambda: self.made("/v1/columns", {"type": {"name": "STRUCT"}, "size": client.get(f"/v1/columns/{column}")["size"],
                                                          "children": [column]}))
            ways += [lambda: self.made("/v1/tables", {"columns": [column] * rng.randrange(1, 3)})] * 3
            inner = client.get(f"/v1/columns/{column}")["data"]
            if inner and inner not in self.gone:
                ways.append(lambda: self.made(f"/v1/views/{inner}/byte_slice", {}))
        if table:
            ways += [lambda: self.made(f"/v1/tables/{table}/pack", {})] * 2
            ways.append(lambda: self.made(f"/v1/tables/{table}/contiguous_split", {"splits": [0]}))
            columns = client.get(f"/v1/tables/{table}")["columns"]
            if columns[0] not in self.gone:
                ways.append(lambda: self.made("/v1/tables", {"columns": columns[:1]}))
        if packed:
            ways += [lambda: self.made(f"/v1/packed/{packed}/unpack", {})] * 3
            ways.append(lambda: self.release(packed))
        rng.choice(ways)()

    def release(self, packed):
        view = self.client.post(f"/v1/packed/{packed}/release", {}, expect=200)["gpu_data"]
        self.mine["view"].append(view["id"])
        self.delete("packed", packed)

    def delete(self, kind, victim, how="keep"):
        client, before = self.client, World(self.client)
        dependents = before.nodes[victim]["dependents"]
        path = f"/v1/{COLLECTIONS[kind]}/{victim}"
        answer = client.call("DELETE", path, params={} if how == "keep" else {"if_held": how})
        if how == "refuse" and dependents:
            assert (answer.status_code, answer.json()["code"]) == (409, "held_by_dependents")
            assert sorted(answer.json()["dependents"]) == sorted(dependents)
            assert World(client).nodes == before.nodes
            return
        assert answer.status_code == 200, answer.text
        ended = (before.above(victim) if how == "cascade" else {victim}) & before.named()
        alive = before.reached(before.named() - ended)
        freed = set(before.nodes) - alive
        told = answer.json()
        assert (told["deleted"], told["freed_count"], told["alive"]) == (len(ended), len(freed), victim in alive)
        assert len(freed) > 100 or set(told["freed"]) == freed
        places = {node: place for place, node in enumerate(told["freed"])}
        assert all(places[node] < places[owner] for node in places for owner in before.nodes[node]["owners"] if owner in places)
        assert told["freed_nbytes"] == sum(before.nodes[node]["nbytes"] for node in freed if before.nodes[node]["kind"] == "buffer")
        assert set(told["kept_alive_by"]) == set(dependents) & alive
        after = World(client)
        assert set(after.nodes) == alive and after.named() == before.named() - ended
        for ids in self.mine.values():
            ids[:] = [node for node in ids if node not in ended]
        self.gone += ended
        problem = client.refused("GET", path, 410, "handle_deleted")
        assert problem["alive"] == (victim in alive)

    def step(self):
        named = [(kind, node) for kind, ids in self.mine.items() for node in ids]
        if named and self.rng.random() < 0.35:
            self.delete(*self.rng.choice(named), how=self.rng.choice(["keep", "keep", "keep", "refuse", "cascade"]))
        else:
            self.make()


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_each_delete_frees_just_what_nothing_holds(client, seed):
    life = Life(client, seed)
    for _ in range(STEPS):
        life.step()
    World(client).check()
    for handle in life.rng.sample(life.gone, min(10, len(life.gone))):
        client.refused("GET", f"/v1/{COLLECTIONS[{'buf': 'buffer', 'view': 'view', 'col': 'column', 'tbl': 'table', 'pkd': 'packed'}[handle.split('_')[0]]]}/{handle}",
                       410, "handle_deleted")
    while any(life.mine.values()):
        kind, ids = life.rng.choice([(kind, ids) for kind, ids in life.mine.items() if ids])
        life.delete(kind, life.rng.choice(ids), how=life.rng.choice(["keep", "cascade"]))
    assert client.handles() == [] and client.registered() == 0
