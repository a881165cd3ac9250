from sweeps.schema.fields import flattened, known_fields, known_leaves, unknown_field, with_field, without_field


def test_fields_of_every_member_of_a_union_are_known():
    names = known_fields()
    for name in (
        "task.T",
        "model.width",
        "model.positions.d_e",
        "model.positions",
        "optimizer.schedule.kind",
        "training.steps",
    ):
        assert name in names
        assert unknown_field(name) is None
    assert "model.positions" not in known_leaves()


def test_an_unknown_field_is_answered_with_the_close_ones():
    assert "did you mean task.T?" in unknown_field("task.t")
    assert "did you mean model.positions.d_e" in unknown_field("model.d_e")
    assert "model has model.kind, model.init, model.width, model.depth, model.mlp_width and 22 more" in unknown_field(
        "model.wide"
    )
    assert "seeds: 4" in unknown_field("seed")


def test_setting_a_field_keeps_what_stands_beside_it_and_the_original():
    data = {"task": {"T": 3, "q": 2}}
    assert with_field(data, "task.T", 5) == {"task": {"T": 5, "q": 2}}
    assert with_field(data, "model.positions.d_e", 5)["model"] == {"positions": {"d_e": 5}}
    assert without_field(data, "task.T") == {"task": {"q": 2}}
    assert without_field(data, "task") == {}
    assert without_field(data, "model.width") == data
    assert data == {"task": {"T": 3, "q": 2}}
    assert flattened({"a": {"b": 1, "c": {"d": 2}}, "e": 3}) == {"a.b": 1, "a.c.d": 2, "e": 3}
