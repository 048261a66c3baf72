def test_x(finished):
    import geostat as gs
    print(gs.claims(finished.tree)[["of","holds","fails","undetermined"]]); assert 0
