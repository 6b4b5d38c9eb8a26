"""Models with sequences and optionals: text, and the data that each runs on."""
import numpy as np

F32 = np.float32


def i64(*values):
    return np.array(values if len(values) != 1 else values[0], np.int64)


def rows(*sizes, width=3):
    """Matrices of so many rows each, all different."""
    made, start = [], 1
    for n in sizes:
        made.append((np.arange(n * width, dtype=F32) + start).reshape(n, width))
        start += 100
    return made


# The slice x[:i+1] of each trip, for as long as the sum of what is there stays below a limit.
GROW = """
g (float[n, 3] x, float limit, int64 most) => (%s) {
  yes = Constant <value_int: int = 1> ()
  start = Cast <to = 9> (yes)
  empty = SequenceEmpty <dtype = 1> ()
  s, last = Loop (most, start, empty, limit) <body = body (int64 i, bool go, seq(float[]) state, float left)
      => (bool more, seq(float[]) next, float rest) {
    one = Constant <value_ints = [1]> ()
    zero = Constant <value_ints = [0]> ()
    at = Reshape (i, one)
    end = Add (at, one)
    row = Slice (x, %s, end, zero)
    next = SequenceInsert (state, row)
    total = ReduceSum <keepdims = 0> (row)
    rest = Sub (left, total)
    none = Constant <value_float = 0.0> ()
    more = Greater (rest, none)
  }>
  %s
}
"""
GROW_FEEDS = [dict(x=rows(5)[0], limit=np.array(v, F32), most=i64(m))
              for v, m in ((0, 9), (7, 5), (1000, 4), (1000, 0), (40, 5))]

# Rows of several types for as many trips as a condition decides: the format takes more inputs, the
# greatest number of trips, and what is read behind the loop.
ROWS = """
g (float[3] x, int64 stop%s) => (float[3] y, float[k, 3] a, bool[k] b, int64[k] c,
    float16[k, 1, 3] d, float[k, 3] e) {
  zero = Constant <value_int = 0> ()
  start = Greater (stop, zero)
  y, a, b, c, d = Loop (%s, start, x) <body = body (int64 i, bool go, float[3] s)
      => (bool more, float[3] next, float[3] p, bool q, int64 r, float16[1, 3] h) {
    one = Constant <value_int = 1> ()
    end = Add (i, one)
    more = Less (end, stop)
    half = Constant <value_float = 0.5> ()
    less = Mul (s, half)
    next = Add (less, x)
    p = Identity (s)
    two = Constant <value_int = 2> ()
    odd = Mod (i, two)
    q = Cast <to = 9> (odd)
    r = Mul (i, stop)
    flat = Constant <value_ints = [1, 3]> ()
    matrix = Reshape (next, flat)
    h = Cast <to = 10> (matrix)
  }>
  numbers = Cast <to = 1> (c)
  shape = Constant <value_ints = [-1, 1]> ()
  column = Reshape (numbers, shape)
  e = Add (a, column)
}
"""
STOPS = [dict(x=np.array([1, -2, 3], F32), stop=i64(k)) for k in (0, 1, 4, 1000)]

# Rows of sizes that only a trip knows, for as many trips as the run says. `k` is their size where
# nothing else says so.
ROWS_OF_A_SIZE = """
g (int64 n, int64 k, float[m] x, bool[m] mask) => (%s) {
  yes = Constant <value_int = 1> ()
  go = Cast <to = 9> (yes)
  zero = Constant <value_int = 0> ()
  one = Constant <value_int = 1> ()
  first = Constant <value_ints = [0]> ()
  shape = Constant <value_ints = [1]> ()
  end = Reshape (k, shape)
  more = Greater (k, one)
  %s
}
"""


def loop_of(row, *types):
    """One Loop whose body gives `row`, text that makes r and further rows; their types."""
    names = ["r", "q", "p"][: len(types)]
    rows_of = [f"{t.replace('[', '[d' + n + ', ')} {n}_all" for t, n in zip(types, names)]
    outs = ", ".join(f"{t} {n}" for t, n in zip(types, names))
    return ROWS_OF_A_SIZE % (", ".join(rows_of), f"""
  {", ".join(n + "_all" for n in names)} = Loop (n, go) <body = b (int64 i, bool c)
      => (bool d, {outs}) {{
    d = Identity (c)
    f = CastLike (i, x)
    {row}
  }}>""")


def scan_of(row, attributes=""):
    """One Scan over x whose body gives `row`, text that makes r of the number u."""
    return ROWS_OF_A_SIZE % ("float[a, b] y", f"""
  y = Scan <num_scan_inputs = 1{attributes}, body = b (float u) => (float[p] r) {{
    {row}
  }}> (x)""")


SIZE_FEEDS = [dict(n=i64(n), k=i64(k), x=np.array([1, -2, 3, 5, 4], F32),
                   mask=np.array([k > 0, 0, 1, 0, k > 3], np.bool_))
              for n, k in ((3, 2), (1, 5), (0, 2), (100, 3))]  # onnxruntime fails for rows of 0

CASES = {
    "rows of a captured length": (
        loop_of("s = Slice (x, first, end)\n r = Add (s, f)\n q = Cast <to = 10> (r)\n"
                "p = Less (r, f)", "float[w]", "float16[w]", "bool[w]"), SIZE_FEEDS),
    "rows of a range": (
        loop_of("s = Range (zero, k, one)\n e = CastLike (s, x)\n m = ReduceMax <keepdims = 0> (x)\n"
                "t = Add (e, f)\n r = Mul (t, m)", "float[w]"), SIZE_FEEDS),
    "rows of what a mask keeps": (
        loop_of("s = Compress <axis = 0> (x, mask)\n r = Add (s, f)\n o = NonZero (mask)\n"
                "q = Add (o, i)", "float[w]", "int64[1, w]"), SIZE_FEEDS),
    "rows of an inner loop": (
        loop_of("""r = Loop (k, go) <body = inner (int64 j, bool e) => (bool g, float t) {
          g = Identity (e)
          h = CastLike (j, x)
          s = ReduceSum <keepdims = 0> (x)
          a = Mul (h, f)
          t = Add (a, s)
        }>""", "float[w]"), SIZE_FEEDS),
    "rows of two inner loops": (
        loop_of("""r = Loop (k, go) <body = inner (int64 j, bool e) => (bool g, float[v] t) {
          g = Identity (e)
          t = Loop (k, go) <body = innermost (int64 l, bool h) => (bool o, float a) {
            o = Identity (h)
            ij = Add (i, j)
            ijl = Mul (ij, l)
            a = CastLike (ijl, x)
          }>
        }>""", "float[w, v]"), SIZE_FEEDS),
    "rows of branches": (
        loop_of("""r = If (more) <
          then_branch = a () => (float[u] s) { s = Concat <axis = 0> (x, x) },
          else_branch = e () => (float[v] t) { t = Neg (x) }>""", "float[w]"), SIZE_FEEDS),
    "a loop over nothing": ("""
      g (float[0, 2] x, float[2] first, int64 n) => (float[2] sum, float[n, 2] y) {
        sum, y = Loop (n, , first) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] r, float[2] o) {
          d = Identity (c)
          u = Gather <axis = 0> (x, i)
          r = Add (s, u)
          o = Neg (u)
        }>
      }""", [dict(x=np.ones((0, 2), F32), first=np.array([3, 4], F32), n=i64(0))]),
    "boxes of nothing": ("""
      g (float[1, 0, 4] b, float[1, 2, 0] s) => (float[k, 4] y) {
        most = Constant <value_int = 10> ()
        overlap = Constant <value_float = 0.5> ()
        kept = NonMaxSuppression (b, s, most, overlap)
        columns = Constant <value_ints = [0, 2]> ()
        places = Gather <axis = 1> (kept, columns)
        y = GatherND (b, places)
      }""", [dict(b=np.ones((1, 0, 4), F32), s=np.ones((1, 2, 0), F32))]),
    "rows that Scan makes": (
        scan_of("s = Range (zero, k, one)\n e = Cast <to = 1> (s)\n r = Mul (e, u)"), SIZE_FEEDS),
    "rows that Scan makes backwards": (
        scan_of("s = Slice (x, first, end)\n r = Mul (s, u)",
                ", scan_input_directions = [1], scan_output_directions = [1], "
                "scan_output_axes = [1]"), SIZE_FEEDS),
    "rows until a condition": (ROWS % ("", ""), STOPS),
    "rows of at most INT64_MAX trips": (
        ROWS.replace("zero = ", "most = Constant <value_int = 9223372036854775807> ()\n  zero = ", 1)
        % ("", "most"), STOPS),
    "rows of at most a few trips": (
        ROWS.replace("zero = ", "most = Constant <value_int = 6> ()\n  zero = ", 1)
        % ("", "most"), STOPS),
    "rows of at most a number of trips": (
        ROWS % (", int64 most", "most"),
        [{**f, "most": i64(m)} for f in STOPS for m in (-1, 0, 3, 999, 2**40, 2**63 - 1)]),
    "rows of symbolic sizes": ("""
      g (float[n, m] x, float[m] limit) => (float[k, n, m] a, int64[k, m] b, float[n, m] y) {
        start = Constant <value_int = 1> ()
        go = Cast <to = 9> (start)
        y, a, b = Loop (, go, x) <body = body (int64 i, bool c, float[n, m] s)
            => (bool more, float[n, m] next, float[n, m] p, int64[m] q) {
          next = Add (s, x)
          p = Mul (s, limit)
          axis = Constant <value_ints = [0]> ()
          sums = ReduceSum <keepdims = 0> (next, axis)
          q = Cast <to = 7> (sums)
          largest = ReduceMax <keepdims = 0> (next)
          most = ReduceMax <keepdims = 0> (limit)
          more = Less (largest, most)
        }>
      }""", [dict(x=rows(n, width=m)[0], limit=np.full(m, v, F32))
             for n, m, v in ((1, 1, 0), (2, 3, 60), (4, 5, 4000))]),
    "rows whose sizes a trip decides": ("""
      g (float[n] x, int64 size, int64 stop) => (float[k, a] y, float[k, a, 2] z) {
        zero = Constant <value_int = 0> ()
        start = Greater (stop, zero)
        y, z = Loop (, start) <body = body (int64 i, bool c) => (bool more, float[p] row, float[p, 2] pair) {
          one = Constant <value_int = 1> ()
          next = Add (i, one)
          more = Less (next, stop)
          first = Constant <value_ints = [0]> ()
          shape = Constant <value_ints = [1]> ()
          end = Reshape (size, shape)
          part = Slice (x, first, end)
          f = Cast <to = 1> (i)
          row = Add (part, f)
          axis = Constant <value_ints = [-1]> ()
          column = Unsqueeze (row, axis)
          pair = Concat <axis = 1> (column, column)
        }>
      }""", [dict(x=np.arange(5, dtype=F32), size=i64(k), stop=i64(t))
             for k, t in ((3, 1), (5, 4), (0, 2), (0, 0), (2, 300))]),
    "rows of loops in a loop": ("""
      g (float[3] x, int64 stop, int64 most) => (float[k, 3] y, float[j, 3] z, int64[j] last) {
        zero = Constant <value_int = 0> ()
        start = Greater (stop, zero)
        none = Constant <value_float = 0.0> ()
        y, z, last = Loop (, start, x) <body = body (int64 i, bool c, float[b, 3] s)
            => (bool more, float[b2, 3] t, float[3] total, int64 count) {
          one = Constant <value_int = 1> ()
          next = Add (i, one)
          more = Less (next, stop)
          inner = Loop (most, c) <body = inside (int64 j, bool d) => (bool on, float[3] row) {
            on = Less (j, i)
            f = Cast <to = 1> (j)
            row = Mul (x, f)
          }>
          axis = Constant <value_ints = [0]> ()
          total = ReduceSum <keepdims = 0> (inner, axis)
          shape = Shape <start = 0, end = 1> (inner)
          count = Squeeze (shape)
          t = Concat <axis = 0> (s, inner)
        }>
      }""".replace("start, x)", "start, begin)").replace(
          "none = Constant <value_float = 0.0> ()",
          "at = Constant <value_ints = [0]> ()\n begin = Unsqueeze (x, at)"),
        [dict(x=np.array([1, -2, 3], F32), stop=i64(k), most=i64(m))
         for k in (0, 1, 4, 20) for m in (0, 3, 2**50)]),
    "rows beside a sequence": ("""
      g (float[3] x, int64 stop) => (seq(float[]) s, float[k] sums, int64[k] lengths, int64 n) {
        zero = Constant <value_int = 0> ()
        start = Greater (stop, zero)
        empty = SequenceEmpty <dtype = 1> ()
        s, sums, lengths = Loop (, start, empty) <body = body (int64 i, bool c, seq(float[3]) t)
            => (bool more, seq(float[3]) u, float sum, int64 length) {
          one = Constant <value_int = 1> ()
          next = Add (i, one)
          more = Less (next, stop)
          f = Cast <to = 1> (i)
          item = Mul (x, f)
          u = SequenceInsert (t, item)
          e = SequenceAt (u, i)
          sum = ReduceSum <keepdims = 0> (e)
          length = SequenceLength (u)
        }>
        n = SequenceLength (s)
      }""", STOPS),
    "append and concatenate along an axis": (
        GROW % ("float[k, 3] y, int64 length", "zero",
                "y = ConcatFromSequence <axis = 0> (s)\n length = SequenceLength (s)"),
        [f for f in GROW_FEEDS if f["most"] > 0]),
    "append and stack": (
        GROW % ("float[k, 1, 3] y, float[1, 3, k] z", "at", """
          y = ConcatFromSequence <axis = 0, new_axis = 1> (s)
          z = ConcatFromSequence <axis = -1, new_axis = 1> (s)
        """),
        [f for f in GROW_FEEDS if f["most"] > 0]),
    "append and give": (GROW % ("seq(float[]) s, int64 length", "zero",
                                "length = SequenceLength (s)"), GROW_FEEDS),
    "items of different sizes": (
        GROW % ("float[a, 3] y, float[b, 3] z", "zero", """
          first = Constant <value_int = 0> ()
          y = SequenceAt (s, first)
          two = Constant <value_int = -2> ()
          back = SequenceAt (s, two)
          length = SequenceLength (s)
          offset = Constant <value_int = 1> ()
          final = Sub (length, offset)
          e = SequenceAt (s, final)
          z = Concat <axis = 0> (back, e)
        """),
        [dict(x=rows(5)[0], limit=np.array(1000, F32), most=i64(m)) for m in (2, 3, 5)]),
    "insert and erase at positions": ("""
      g (seq(float[n, 3]) s, float[k, 3] x, int64 p, int64 q) => (seq(float[]) y, seq(float[]) z, int64 n1) {
        y = SequenceInsert (s, x, p)
        z = SequenceErase (y, q)
        again = SequenceInsert (s, x, p)
        n1 = SequenceLength (again)
      }""", [dict(s=rows(*r), x=rows(4)[0] * -1, p=i64(p), q=i64(q))
             for r, p, q in (((1, 2, 3), 0, 0), ((1, 2, 3), 3, -1), ((1, 2, 3), -3, 1),
                             ((1, 2, 3), -1, -4), ((), 0, 0), ((2,), 1, 1), ((0, 3), 1, 1))]),
    "insert and erase at the end": ("""
      g (seq(float[n, 3]) s, float[k, 3] x) => (seq(float[]) y, seq(float[]) z, seq(float[]) w) {
        y = SequenceInsert (s, x)
        z = SequenceErase (y)
        v = SequenceInsert (z, x)
        other = Neg (x)
        w = SequenceInsert (z, other)
      }""", [dict(s=rows(*r), x=rows(4)[0]) for r in ((1, 2), (), (0,))]),
    "read at a position": ("""
      g (seq(float[n, 3]) s, int64 p) => (float[a, 3] y, float[3] sum, int64 length) {
        y = SequenceAt (s, p)
        zero = Constant <value_ints = [0]> ()
        sum = ReduceSum <keepdims = 0> (y, zero)
        length = SequenceLength (s)
      }""", [dict(s=rows(*r), p=i64(p)) for r, p in
             (((1, 2, 3), 0), ((1, 2, 3), -1), ((1, 2, 3), -3), ((4, 0), 1), ((5,), 0))]),
    "a position in known tensors": ("""
      g (float[2] a, float[3] b, float[2, 2] c, int64 p) => (float[n] y) {
        s = SequenceConstruct (a, b)
        y = SequenceAt (s, p)
      }""", [dict(a=np.ones(2, F32), b=np.zeros(3, F32), c=np.ones((2, 2), F32), p=i64(p))
             for p in (0, 1, -1, -2)]),
    "tensors of one size keep it": ("""
      g (seq(float[2, 3]) s, int64 p, float[2, 3] x) => (float[2, 3] y) {
        one = SequenceAt (s, p)
        t = SequenceInsert (s, x, p)
        two = SequenceAt (t, p)
        y = Add (one, two)
      }""", [dict(s=rows(2, 2, 2), p=i64(p), x=rows(2)[0]) for p in (0, 1, 2)]),
    "split by sizes": ("""
      g (float[n, m] x, int64[k] sizes) => (seq(float[]) s, int64 length, float[n, m] y) {
        s = SplitToSequence <axis = 1> (x, sizes)
        length = SequenceLength (s)
        y = ConcatFromSequence <axis = 1> (s)
      }""", [dict(x=rows(2, width=7)[0], sizes=i64(*v))
             for v in ((3, 4), (7, 0), (1, 0, 2, 2, 1, 1))]),
    "split in equal parts": ("""
      g (float[n, m] x, int64 size) => (seq(float[]) s, int64 length, float[n, m] y) {
        s = SplitToSequence <axis = 0> (x, size)
        length = SequenceLength (s)
        y = ConcatFromSequence <axis = -2> (s)
      }""", [dict(x=rows(7)[0], size=i64(k)) for k in (1, 2, 3, 7, 9)]),
    "split one by one": ("""
      g (float[n, m] x) => (seq(float[]) s, seq(float[]) t, float[m] y) {
        s = SplitToSequence <axis = 0, keepdims = 0> (x)
        t = SplitToSequence <axis = 1, keepdims = 1> (x)
        last = Constant <value_int = -1> ()
        y = SequenceAt (s, last)
      }""", [dict(x=rows(k)[0]) for k in (1, 3)]),
    "map": ("""
      g (seq(float[n, 3]) s, float[3] x) => (seq(float[]) y, seq(float[]) z, float[a, 3] all) {
        y, z = SequenceMap (s, x) <body = body (float[a, 3] e, float[3] f) => (float[a, 3] u, float[b] v) {
          u = Add (e, f)
          two = Mul (u, u)
          axes = Constant <value_ints = [1]> ()
          v = ReduceSum <keepdims = 0> (two, axes)
        }>
        all = ConcatFromSequence <axis = 0> (y)
      }""", [dict(s=rows(*r), x=np.array([1, -2, 3], F32)) for r in ((1, 4, 2), (3,), (0, 1))]),
    "map of two": ("""
      g (seq(float[n, 3]) s, seq(float[n, 3]) t) => (seq(float[]) y) {
        y = SequenceMap (s, t) <body = body (float[a, 3] e, float[a, 3] f) => (float[a, 3] u) {
          u = Sub (e, f)
        }>
      }""", [dict(s=rows(*r), t=[-v for v in rows(*r)]) for r in ((1, 4, 2), ())]),
    "branches of different lengths": ("""
      g (bool c, float[2, 3] x, seq(float[n, 3]) s) => (seq(float[]) y, int64 length, float[k, 3] all) {
        y = If (c) <
          then_branch = a () => (seq(float[]) t) {
            twice = Add (x, x)
            t = SequenceConstruct (x, twice, x)
          },
          else_branch = b () => (seq(float[]) u) {
            u = SequenceInsert (s, x)
          }>
        length = SequenceLength (y)
        all = ConcatFromSequence <axis = 0> (y)
      }""", [dict(c=np.array(c), x=rows(2)[0], s=rows(*r))
             for c in (True, False) for r in ((), (4, 1))]),
    "known branches of different lengths": ("""
      g (bool c, float[2, 3] x) => (seq(float[]) y, int64 length) {
        y = If (c) <
          then_branch = a () => (seq(float[]) t) { t = SequenceConstruct (x, x) },
          else_branch = b () => (seq(float[]) u) { u = SequenceEmpty <dtype = 1> () }>
        length = SequenceLength (y)
      }""", [dict(c=np.array(c), x=rows(2)[0]) for c in (True, False)]),
    "a loop in a loop": ("""
      g (int64 n, float[3] x) => (seq(float[]) y, float[k, 3] all) {
        yes = Constant <value_int = 1> ()
        go = Cast <to = 9> (yes)
        empty = SequenceEmpty <dtype = 1> ()
        y = Loop (n, go, empty) <body = outer (int64 i, bool c, seq(float[]) s) => (bool c2, seq(float[]) s3) {
          c2 = Identity (c)
          f = Cast <to = 1> (i)
          z = Add (x, f)
          s2 = SequenceInsert (s, z)
          s3 = Loop (i, c, s2) <body = inner (int64 j, bool d, seq(float[]) t) => (bool d2, seq(float[]) t2) {
            d2 = Identity (d)
            e = SequenceAt (t, j)
            w = Mul (e, f)
            t2 = SequenceInsert (t, w, j)
          }>
        }>
        all = ConcatFromSequence <axis = 0, new_axis = 1> (y)
      }""", [dict(n=i64(n), x=np.array([1, -2, 3], F32)) for n in (1, 2, 5)]),
    "a loop over all so far": ("""
      g (int64 n, float[3] x) => (seq(float[]) y, float[3] total) {
        yes = Constant <value_int = 1> ()
        go = Cast <to = 9> (yes)
        empty = SequenceEmpty <dtype = 1> ()
        y, total = Loop (n, go, empty, x) <body = outer (int64 i, bool c, seq(float[]) s, float[3] a) => (bool c2, seq(float[]) s2, float[3] b) {
          c2 = Identity (c)
          length = SequenceLength (s)
          b = Loop (length, c, a) <body = inner (int64 j, bool d, float[3] u) => (bool d2, float[3] v) {
            d2 = Identity (d)
            e = SequenceAt (s, j)
            v = Add (u, e)
          }>
          s2 = SequenceInsert (s, b)
        }>
      }""", [dict(n=i64(n), x=np.array([1, -2, 3], F32)) for n in (0, 1, 6)]),
    "the last one or another": ("""
      g (int64 n, float[3] x) => (seq(float[]) y) {
        yes = Constant <value_int = 1> ()
        go = Cast <to = 9> (yes)
        empty = SequenceEmpty <dtype = 1> ()
        y = Loop (n, go, empty) <body = outer (int64 i, bool c, seq(float[]) s) => (bool c2, seq(float[]) s2) {
          c2 = Identity (c)
          length = SequenceLength (s)
          zero = Constant <value_int = 0> ()
          some = Greater (length, zero)
          e = If (some) <
            then_branch = a () => (float[m] t) {
              last = Constant <value_int = -1> ()
              f = SequenceAt (s, last)
              t = Concat <axis = 0> (f, x)
            },
            else_branch = b () => (float[m] u) { u = Neg (x) }>
          s2 = SequenceInsert (s, e)
        }>
      }""", [dict(n=i64(n), x=np.array([1, -2, 3], F32)) for n in (0, 1, 4)]),
    "a queue": ("""
      g (int64 n, seq(float[m, 3]) q) => (seq(float[]) y, float[3] total) {
        yes = Constant <value_int = 1> ()
        go = Cast <to = 9> (yes)
        zero = Constant <value_floats = [0.0, 0.0, 0.0]> ()
        y, total = Loop (n, go, q, zero) <body = outer (int64 i, bool c, seq(float[]) s, float[3] a) => (bool c2, seq(float[]) s3, float[3] b) {
          c2 = Identity (c)
          first = Constant <value_int = 0> ()
          e = SequenceAt (s, first)
          s2 = SequenceErase (s, first)
          rows = Constant <value_ints = [0]> ()
          t = ReduceSum <keepdims = 0> (e, rows)
          b = Add (a, t)
          f = Concat <axis = 0> (e, e)
          s3 = SequenceInsert (s2, f)
        }>
      }""", [dict(n=i64(n), q=rows(*r)) for n, r in ((0, (1,)), (3, (1, 2)), (5, (1, 0, 2)))]),
    "a queue that keeps its length": ("""
      g (int64 n, seq(float[m, 3]) q) => (seq(float[]) y) {
        y = Loop (n, , q) <body = outer (int64 i, bool c, seq(float[]) s) => (bool c2, seq(float[]) s3) {
          c2 = Identity (c)
          first = Constant <value_int = 0> ()
          e = SequenceAt (s, first)
          s2 = SequenceErase (s, first)
          f = Neg (e)
          s3 = SequenceInsert (s2, f)
        }>
      }""", [dict(n=i64(n), q=rows(*r)) for n, r in ((0, (1,)), (3, (1, 2)), (5, (1, 0, 2)))]),
    "swapped states": ("""
      g (int64 n, seq(float[m, 3]) p, seq(float[m, 3]) q, float[1, 3] x) => (seq(float[]) a, seq(float[]) b) {
        a, b = Loop (n, , p, q) <body = body (int64 i, bool c, seq(float[]) s, seq(float[]) t) => (bool c2, seq(float[]) u, seq(float[]) v) {
          c2 = Identity (c)
          u = Identity (t)
          v = SequenceInsert (s, x)
        }>
      }""", [dict(n=i64(n), p=rows(1, 1), q=[-v for v in rows(2)], x=rows(1)[0] * 7)
             for n in (0, 1, 2, 5)]),
    "an early end": ("""
      g (seq(float[m, 3]) q, float limit) => (seq(float[]) y, int64 left) {
        length = SequenceLength (q)
        yes = Constant <value_int = 1> ()
        go = Cast <to = 9> (yes)
        y = Loop (length, go, q) <body = body (int64 i, bool c, seq(float[]) s) => (bool c2, seq(float[]) t) {
          last = Constant <value_int = -1> ()
          e = SequenceAt (s, last)
          total = ReduceSum <keepdims = 0> (e)
          c2 = Less (total, limit)
          t = SequenceErase (s)
        }>
        left = SequenceLength (y)
      }""", [dict(q=rows(1, 1, 1, 1)[::-1], limit=np.array(v, F32)) for v in (0, 200, 1000, 1e9)]),
    "temporary sequences": ("""
      g (int64 n, float[k, 3] x) => (float[3] y) {
        zero = Constant <value_floats = [0.0, 0.0, 0.0]> ()
        y = Loop (n, , zero) <body = body (int64 i, bool c, float[3] a) => (bool c2, float[3] b) {
          c2 = Identity (c)
          s = SplitToSequence <axis = 0, keepdims = 0> (x)
          length = SequenceLength (s)
          at = Mod (i, length)
          e = SequenceAt (s, at)
          b = Add (a, e)
        }>
      }""", [dict(n=i64(n), x=rows(4)[0]) for n in (0, 3, 9)]),
    "integers and scalars": ("""
      g (seq(int64) s, int64 p) => (int64 y, int64[n] all, seq(int64) t) {
        y = SequenceAt (s, p)
        all = ConcatFromSequence <axis = 0, new_axis = 1> (s)
        two = Add (y, p)
        t = SequenceInsert (s, two, p)
      }""", [dict(s=[i64(3), i64(-4), i64(5)], p=i64(p)) for p in (0, 1, -1)]),
}


# What a run or the compiler says: text, data (None: compiling fails), message.
ERRORS = {
    "rows of different sizes": ("""
      g (float[3] x, int64 stop) => (float[a, b] y) {
        yes = Constant <value_int = 1> ()
        start = Cast <to = 9> (yes)
        y = Loop (, start) <body = body (int64 i, bool c) => (bool more, float[n] row) {
          more = Less (i, stop)
          shape = Constant <value_ints = [1]> ()
          end = Reshape (i, shape)
          first = Constant <value_ints = [0]> ()
          row = Slice (x, first, end)
        }>
      }""", dict(x=np.zeros(3, F32), stop=i64(2)),
      "position 1 of a sequence of 3 has other sizes than the first"),
    "rows of ranges of different sizes": (
        loop_of("s = Range (zero, i, one)\n r = CastLike (s, x)", "float[w]"), SIZE_FEEDS[0],
        "node Loop (of 'r_all'): position 1 of a sequence of 3 has other sizes than the first"),
    "rows of Scan of different sizes": (
        scan_of("a = Abs (u)\n l = Cast <to = 7> (a)\n s = Range (zero, l, one)\n"
                "r = Cast <to = 1> (s)"), SIZE_FEEDS[0],
        "node Scan (of 'y'): position 1 of a sequence of 5 has other sizes than the first"),
    "read behind the end": ("""
      g (seq(float[n, 3]) s, int64 p) => (float[a, 3] y) { y = SequenceAt (s, p) }""",
        dict(s=rows(1, 2, 3), p=i64(7)),
        "node SequenceAt (of 'y'): position 7 of a sequence of 3"),
    "read before the beginning": ("""
      g (seq(float[n, 3]) s, int64 p) => (float[a, 3] y) { y = SequenceAt (s, p) }""",
        dict(s=rows(1, 2, 3), p=i64(-4)), "position -4 of a sequence of 3"),
    "read from nothing": ("""
      g (seq(float[n, 3]) s, int64 p) => (float[a, 3] y) { y = SequenceAt (s, p) }""",
        dict(s=[], p=i64(0)), "position 0 of a sequence of 0"),
    "insert too far": ("""
      g (seq(float[n, 3]) s, float[2] x, int64 p) => (seq(float[]) y) { y = SequenceInsert (s, x, p) }""",
        dict(s=rows(1, 2), x=np.ones(2, F32), p=i64(3)),
        "node SequenceInsert (of 'y'): position 3 of a sequence of 2"),
    "erase from nothing": ("""
      g (seq(float[n, 3]) s) => (seq(float[]) y) { y = SequenceErase (s) }""",
        dict(s=[]), "node SequenceErase (of 'y'): position -1 of a sequence of 0"),
    "a position far out": ("""
      g (seq(float[n, 3]) s, int64 p) => (seq(float[]) y) { y = SequenceErase (s, p) }""",
        dict(s=rows(1), p=np.array(-2**63, np.int64)), f"position {-2**63} of a sequence of 1"),
    "join nothing": ("""
      g (seq(float[n, 3]) s) => (float[k, 3] y) { y = ConcatFromSequence <axis = 0> (s) }""",
        dict(s=[]), "node ConcatFromSequence (of 'y'): there is nothing to join"),
    "join what does not fit": ("""
      g (seq(float[n, m]) s) => (float[k, m] y) { y = ConcatFromSequence <axis = 0> (s) }""",
        dict(s=rows(1, 2) + rows(2, width=4)), "position 2 of a sequence of 3 has other sizes"),
    "stack what does not fit": ("""
      g (seq(float[n, m]) s) => (float[k, n, m] y) { y = ConcatFromSequence <axis = 0, new_axis = 1> (s) }""",
        dict(s=rows(1, 2)), "position 1 of a sequence of 2 has other sizes"),
    "parts that are too small": ("""
      g (float[n] x, int64[k] sizes) => (seq(float[]) s) { s = SplitToSequence (x, sizes) }""",
        dict(x=np.ones(5, F32), sizes=i64(1, 2)), "parts that have 3 together, not 5"),
    "parts that are too large": ("""
      g (float[n] x, int64[k] sizes) => (seq(float[]) s) { s = SplitToSequence (x, sizes) }""",
        dict(x=np.ones(5, F32), sizes=i64(2, 2**62)), "does not fit in a size of 5"),
    "a negative part": ("""
      g (float[n] x, int64[k] sizes) => (seq(float[]) s) { s = SplitToSequence (x, sizes) }""",
        dict(x=np.ones(5, F32), sizes=i64(-1, 6)), "part 0 of -1 does not fit"),
    "parts of nothing": ("""
      g (float[n] x, int64 size) => (seq(float[]) s) { s = SplitToSequence (x, size) }""",
        dict(x=np.ones(5, F32), size=i64(0)), "node SplitToSequence (of 's'): parts of 0"),
    "another size than the input's": ("""
      g (seq(float[n, 3]) s) => (int64 y) { y = SequenceLength (s) }""",
        dict(s=rows(2, width=4)), "input 's': dimension 1 of element 0 is 4, which should be 3"),
    "another number of dimensions": ("""
      g (seq(float[n, 3]) s) => (int64 y) { y = SequenceLength (s) }""",
        dict(s=[np.ones(3, F32)]), "input 's': element 0 has rank 1, not 2"),
    "another element type": ("""
      g (seq(float[n, 3]) s) => (int64 y) { y = SequenceLength (s) }""",
        dict(s=[np.ones((1, 3), np.float64)]), "'s[0]' is given as f64, but the model takes f32"),
    "dimensions other than declared": ("""
      g (seq(float[]) s, int64 p) => (float[n, 3] y) { y = SequenceAt (s, p) }""",
        dict(s=rows(1) + [np.ones(3, F32)], p=i64(1)),
        "position 1 of a sequence of 2 has 1 dimensions"),
    "map of two lengths": ("""
      g (seq(float[n, 3]) s, seq(float[n, 3]) t) => (seq(float[]) y) {
        y = SequenceMap (s, t) <body = body (float[a, 3] e, float[a, 3] f) => (float[a, 3] u) { u = Sub (e, f) }>
      }""", dict(s=rows(1, 2), t=rows(1)), "length of a sequence"),
    "unknown number of dimensions": ("""
      g (seq(float[]) s, int64 p) => (float y) {
        x = SequenceAt (s, p)
        y = ReduceSum <keepdims = 0> (x)
      }""", None, "number of dimensions of the tensors in the sequence is not known"),
    "a mixture of types": ("""
      g (seq(float[n]) s, int64 p, int64[2] x) => (seq(float[n]) y) { y = SequenceInsert (s, x, p) }""",
        None, "a sequence of f32 and i64"),
    "tensor and sequence in branches": ("""
      g (bool c, seq(float[n]) s, float[3] x) => (float[3] y) {
        y = If (c) <then_branch = a () => (float[3] t) { t = Neg (x) },
                    else_branch = b () => (seq(float[]) u) { u = SequenceInsert (s, x) }>
      }""", None, "in one branch and not in the other"),
    "a state that becomes a tensor": ("""
      g (int64 n, seq(float[k]) s) => (seq(float[k]) y) {
        y = Loop (n, , s) <body = body (int64 i, bool c, seq(float[k]) t) => (bool c2, float[k] u) {
          c2 = Identity (c)
          u = SequenceAt (t, i)
        }>
      }""", None, "state 0 is a sequence or optional and becomes a tensor"),
    "a sequence where a tensor is due": ("""
      g (seq(float[k]) s) => (float[k] y) { y = Neg (s) }""", None, "is a sequence or optional"),
    "read from what is always empty": ("""
      g (int64 n) => (float y) {
        zero = Constant <value_float = 0.0> ()
        empty = SequenceEmpty <dtype = 1> ()
        s, y = Loop (n, , empty, zero) <body = body (int64 i, bool c, seq(float[]) t, float a) => (bool c2, seq(float[]) u, float b) {
          c2 = Identity (c)
          u = Identity (t)
          e = SequenceAt (t, i)
          f = ReduceSum <keepdims = 0> (e)
          b = Add (a, f)
        }>
      }""", None, "none is ever put in"),
}

# Optionals, which onnxruntime's interface cannot all say: text, and data with results.
OPTIONALS = {
    "an optional tensor": ("""
      g (optional(float[n, 3]) x, float[3] other) => (bool has, float[m] y, optional(float[n, 3]) same) {
        has = OptionalHasElement (x)
        same = Identity (x)
        y = If (has) <
          then_branch = a () => (float[m] t) {
            e = OptionalGetElement (x)
            axes = Constant <value_ints = [0]> ()
            t = ReduceSum <keepdims = 0> (e, axes)
          },
          else_branch = b () => (float[m] u) { u = Neg (other) }>
      }""", [
          (dict(x=rows(2)[0], other=np.ones(3, F32)),
           dict(has=np.array(True), y=rows(2)[0].sum(0), same=rows(2)[0])),
          (dict(other=np.ones(3, F32)), dict(has=np.array(False), y=-np.ones(3, F32)))]),
    "an optional sequence": ("""
      g (optional(seq(float[n, 3])) x, float[1, 3] e) => (bool has, seq(float[n, 3]) y) {
        has = OptionalHasElement (x)
        s = If (has) <
          then_branch = a () => (seq(float[n, 3]) t) { t = OptionalGetElement (x) },
          else_branch = b () => (seq(float[n, 3]) u) { u = SequenceConstruct (e, e) }>
        y = SequenceInsert (s, e)
      }""", [
          (dict(x=rows(2, 1), e=rows(1)[0]), dict(has=np.array(True), y=rows(2, 1) + rows(1))),
          (dict(x=[], e=rows(1)[0]), dict(has=np.array(True), y=rows(1))),
          (dict(e=rows(1)[0]), dict(has=np.array(False), y=rows(1) * 3))]),
    "an optional of either kind": ("""
      g (bool c, seq(float[n]) s, float[k] x) => (optional(seq(float[n])) y, optional(float[k]) z) {
        y = If (c) <
          then_branch = a () => (optional(seq(float[n])) t) { t = Optional (s) },
          else_branch = b () => (optional(seq(float[n])) u) { u = Optional <type = seq(float[n])> () }>
        z = If (c) <
          then_branch = d () => (optional(float[k]) v) { v = Optional <type = float[k]> () },
          else_branch = f () => (optional(float[k]) w) { w = Optional (x) }>
      }""", [
          (dict(c=np.array(True), s=[np.ones(2, F32)], x=np.ones(3, F32)),
           dict(y=[np.ones(2, F32)])),
          (dict(c=np.array(False), s=[np.ones(2, F32)], x=np.ones(3, F32)),
           dict(z=np.ones(3, F32)))]),
}
