"""The layout of multi-query associative recall, read back in plain Python: of any generator's rows."""

IGNORE = -100


def read(inputs, labels, *, vocabulary, pairs, fillers):
    """Checks one row, lists of L ids and L labels (-100: not asked), and returns each pair's slot.

    fillers: the ids that stand where nothing is asked; None: any of the vocabulary.
    """
    length = len(inputs)
    assert length % 2 == 0 and vocabulary > length and 4 * pairs <= length
    keys, values = inputs[0 : 2 * pairs : 2], inputs[1 : 2 * pairs : 2]
    assert len(set(keys)) == pairs and all(1 <= key < vocabulary // 2 for key in keys)
    assert len(set(values)) == pairs and all(vocabulary // 2 <= value < vocabulary for value in values)
    asked = [position for position in range(length) if labels[position] != IGNORE]
    slots = [None] * pairs
    for position in asked:
        assert position >= 2 * pairs and position % 2 == 0, "a query that is not the first token of a slot"
        pair = keys.index(inputs[position])
        assert slots[pair] is None, "a key is asked for twice"
        assert labels[position] == values[pair]
        slots[pair] = (position - 2 * pairs) // 2
    assert None not in slots, "a key is never asked for"
    if fillers is not None:
        others = [inputs[at] for at in range(2 * pairs, length) if at not in asked]
        assert set(others) <= set(fillers)
    return slots
