"""Records of one person, brought together: exact places of persons, sums, and the records with the smallest hashes.

Places are exact: two persons never share one, whatever their keys, since that would double what one of them can move.
The salt of the table is drawn for each run, so that nobody can choose keys that all fall into the same slot.
"""

from __future__ import annotations

import numpy as np

from recoup.kernels.compiled import compiled

_MIX = np.uint64(0x9E3779B97F4A7C15)  # odd, without structure: 2^64 over the golden ratio


@compiled(nogil=True)
def place_persons(
    keys,  # IN      (n,) int64, of any persons
    salt,  # IN      (2,) uint64, the second odd
    slots,  # IN OUT  (a power of 2,) places of persons, -1 for none; more than there will be persons
    persons,  # IN OUT  the key of each place; room for n more
    n_persons,  # IN      how many there are
    places,  # OUT     (n,) int64: the place of each key
):
    """Find each key's place, where a key that is new gets the next one; returns how many persons there are then."""
    last = np.uint64(slots.shape[0] - 1)
    for i in range(keys.shape[0]):
        slot = _slot(keys[i], salt, last)
        while slots[slot] >= 0 and persons[slots[slot]] != keys[i]:
            slot = (slot + np.uint64(1)) & last
        if slots[slot] < 0:
            slots[slot] = n_persons
            persons[n_persons] = keys[i]
            n_persons += 1
        places[i] = slots[slot]
    return n_persons


@compiled(nogil=True)
def place_texts(
    texts,  # IN      bytes of the names of any persons
    ends,  # IN      (n + 1,) int64: where each starts, and the last one ends
    hashes,  # IN      (n,) int64, of the names
    salt,  # IN      (2,) uint64, the second odd
    slots,  # IN OUT  (a power of 2,) places of persons, -1 for none; more than there will be persons
    persons,  # IN OUT  the hash of each place; room for n more
    names,  # IN OUT  bytes of the names of all places; room for all texts
    name_ends,  # IN OUT  int64: where each starts, and the last one ends; room for n more
    n_persons,  # IN      how many there are
    places,  # OUT     (n,) int64: the place of each name
):
    """Find each name's place by its hash and all of its bytes, where a new one gets the next; returns how many."""
    last = np.uint64(slots.shape[0] - 1)
    for i in range(hashes.shape[0]):
        own = texts[ends[i] : ends[i + 1]]
        slot = _slot(hashes[i], salt, last)
        while slots[slot] >= 0:
            place = slots[slot]
            if persons[place] == hashes[i] and _equal(own, names[name_ends[place] : name_ends[place + 1]]):
                break
            slot = (slot + np.uint64(1)) & last
        if slots[slot] < 0:
            slots[slot] = n_persons
            persons[n_persons] = hashes[i]
            stop = name_ends[n_persons] + own.shape[0]
            names[name_ends[n_persons] : stop] = own
            n_persons += 1
            name_ends[n_persons] = stop
        places[i] = slots[slot]
    return n_persons


@compiled(nogil=True)
def _equal(a, b):
    n = a.shape[0]
    if n != b.shape[0]:
        return False
    i = 0
    while i < n and a[i] == b[i]:
        i += 1
    return i == n


@compiled(nogil=True)
def fill_slots(
    persons,  # IN   (n,) int64, of different persons
    salt,  # IN   (2,) uint64, the second odd
    slots,  # OUT  (a power of 2,), all -1 before; more than there are persons
):
    """Enter persons, by their places, into an empty table."""
    last = np.uint64(slots.shape[0] - 1)
    for place in range(persons.shape[0]):
        slot = _slot(persons[place], salt, last)
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & last
        slots[slot] = place


@compiled(nogil=True)
def _slot(key, salt, last):
    mixed = (np.uint64(key) ^ salt[0]) * salt[1]
    mixed = (mixed ^ (mixed >> np.uint64(32))) * _MIX
    return (mixed ^ (mixed >> np.uint64(29))) & last


@compiled(nogil=True)
def add_by_person(
    values,  # IN      (n, d) int32
    places,  # IN      (n,) int64
    tallies,  # IN OUT  (persons, 1 + d) int64: how many, then sums
):
    """Add each row to the tally of its person."""
    for i in range(values.shape[0]):
        place = places[i]
        tallies[place, 0] += 1
        for j in range(values.shape[1]):
            tallies[place, 1 + j] += values[i, j]


@compiled(nogil=True)
def keep_smallest(
    records,  # IN      (n, d) int32
    hashes,  # IN      (n,) int64
    places,  # IN      (n,) int64
    kept,  # IN OUT  (persons, r, d) int32: those with the smallest hashes so far, in ascending order
    kept_hashes,  # IN OUT  (persons, r) int64
    n_kept,  # IN OUT  (persons,) int64
):
    """Keep of each person the r records that come first by hash and then by coordinates, however often one occurs."""
    n, d = records.shape
    r = kept.shape[1]
    for i in range(n):
        place = places[i]
        if n_kept[place] == r and not _before(hashes[i], records[i], kept_hashes[place, r - 1], kept[place, r - 1]):
            continue
        n_kept[place] = min(n_kept[place] + 1, r)
        at = n_kept[place] - 1
        while at > 0 and _before(hashes[i], records[i], kept_hashes[place, at - 1], kept[place, at - 1]):
            kept_hashes[place, at] = kept_hashes[place, at - 1]
            for j in range(d):
                kept[place, at, j] = kept[place, at - 1, j]
            at -= 1
        kept_hashes[place, at] = hashes[i]
        for j in range(d):
            kept[place, at, j] = records[i, j]


@compiled(nogil=True)
def _before(hash_a, record_a, hash_b, record_b):
    if hash_a != hash_b:
        return hash_a < hash_b
    for j in range(record_a.shape[0]):
        if record_a[j] != record_b[j]:
            return record_a[j] < record_b[j]
    return False


@compiled(nogil=True)
def siphash(
    data,  # IN   bytes of all messages
    ends,  # IN   (n + 1,) int64: where each message starts, and the last one ends
    key,  # IN   (2,) uint64
    hashes,  # OUT  (n,) uint64
):
    """SipHash-2-4 of each message (Aumasson and Bernstein, 2012)."""
    for i in range(hashes.shape[0]):
        start, stop = ends[i], ends[i + 1]
        a = key[0] ^ np.uint64(0x736F6D6570736575)
        b = key[1] ^ np.uint64(0x646F72616E646F6D)
        c = key[0] ^ np.uint64(0x6C7967656E657261)
        d = key[1] ^ np.uint64(0x7465646279746573)
        # The last word, which may have no byte of the message, ends with its length.
        for first in range(start, stop + 1, 8):
            word = np.uint64(0)
            for j in range(min(8, stop - first)):
                word |= np.uint64(data[first + j]) << np.uint64(8 * j)
            if stop - first < 8:
                word |= np.uint64(stop - start) << np.uint64(56)
            d ^= word
            a, b, c, d = _sip_round(a, b, c, d)
            a, b, c, d = _sip_round(a, b, c, d)
            a ^= word
        c ^= np.uint64(0xFF)
        for _ in range(4):
            a, b, c, d = _sip_round(a, b, c, d)
        hashes[i] = a ^ b ^ c ^ d


@compiled(nogil=True)
def _sip_round(a, b, c, d):
    a += b
    b = _turned(b, 13) ^ a
    a = _turned(a, 32)
    c += d
    d = _turned(d, 16) ^ c
    a += d
    d = _turned(d, 21) ^ a
    c += b
    b = _turned(b, 17) ^ c
    c = _turned(c, 32)
    return a, b, c, d


@compiled(nogil=True)
def _turned(word, bits):
    return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))
