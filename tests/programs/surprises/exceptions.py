"""Exceptions in the middle: what was changed before stays, `finally` runs once, handlers see what they should."""

import jitgrad as torch
from tests.script.frontend.agree import registry, t

PROGRAMS, program = registry()
X = t(3)
KS = tuple((X, k) for k in (0, 1, 2, 5, -1))


class Thing:
    pass


class TooLarge(ValueError):
    """The user's own."""


def check(x, k):
    if k > 1:
        raise TooLarge(f"{k} is too large")
    return x * k


@program(*KS)
def an_error_of_a_called_function(x, k):
    try:
        return check(x, k)
    except ValueError as e:
        return str(e)


@program(*KS)
def else_and_finally(x, k):
    log = []
    try:
        y = check(x, k)
    except TooLarge:
        log.append("except")
        y = x
    else:
        log.append("else")
    finally:
        log.append("finally")
    return y * 1, log


@program(*KS)
def finally_and_a_return(x, k):
    def f(log):
        try:
            log.append(1)
            return check(x, k)
        finally:
            log.append(2)

    log = []
    try:
        y = f(log)
    except ValueError:
        y = None
    return y, log


@program(*KS)
def raised_out_of_the_script(x, k):
    y = x.clone()
    y += 1
    print("before", k)
    y = check(y, k)
    print("after")
    return y


@program(*KS)
def a_handler_raises_another(x, k):
    try:
        try:
            return check(x, k)
        except ValueError as e:
            raise KeyError("inner") from e
    except KeyError as e:
        return str(e)


@program(*KS)
def raise_again(x, k):
    try:
        try:
            return check(x, k)
        except TooLarge:
            print("seen")
            raise
    except ValueError as e:
        return len(e.args)


@program(*KS)
def the_first_of_two_handlers(x, k):
    try:
        if k == 0:
            raise KeyError(k)
        y = check(x, k)
    except (KeyError, IndexError) as e:
        y = type(e).__name__
    except Exception:
        y = "other"
    return y


@program(*KS)
def index_of_a_list(x, k):
    xs = [x, x * 2]
    try:
        return xs[k]
    except IndexError as e:
        return str(e)


@program(*KS)
def division_by_zero(x, k):
    try:
        return x * (6 // k) + 6 % k
    except ZeroDivisionError as e:
        return str(e)


@program(*KS)
def a_key_that_is_missing(x, k):
    d = {0: x, 1: x * 2}
    try:
        return d[k]
    except KeyError as e:
        return f"no {e}"


@program(*KS)
def an_attribute_that_is_missing(x, k):
    thing = Thing()
    if k > 0:
        thing.value = x * k
    try:
        return thing.value
    except AttributeError:
        return x


@program(*KS)
def get_with_a_default(x, k):
    d = {1: x}
    return d.get(k, x * 100), d.get(k) is None, d.setdefault(k, x + 1), len(d)


@program(*KS)
def errors_in_a_loop_are_counted(x, k):
    bad = 0
    for i in range(4):
        try:
            x = x + check(x, i * k)
        except TooLarge:
            bad += 1
    return x, bad


@program(*KS)
def an_error_ends_a_generator(x, k):
    def numbers():
        yield x
        yield check(x, k)
        yield x * 10

    out = []
    try:
        for v in numbers():
            out.append(v)
    except ValueError:
        out.append(None)
    return out


@program(*KS)
def assert_with_a_message(x, k):
    try:
        assert k < 2, ("bad", k)
    except AssertionError as e:
        return e.args
    return x


@program(*KS)
def text_that_is_no_number(x, k):
    try:
        return int(["3", "x", "7"][k]) * x
    except (ValueError, IndexError) as e:
        return str(e)


@program(*KS, compilations=None)
def stop_iteration(x, k):
    it = iter([x, x * 2])
    try:
        for _ in range(k):
            x = next(it)
    except StopIteration:
        return "end"
    return x * 1


@program(*KS)
def shapes_that_do_not_fit(x, k):
    try:
        return x + torch.ones(max(k, 0) + 1)
    except RuntimeError:
        return "shapes"


@program(*KS)
def nested_functions_and_finally(x, k):
    log = []

    def inner():
        try:
            log.append("a")
            return check(x, k)
        finally:
            log.append("b")

    def outer():
        try:
            return inner()
        except TooLarge:
            log.append("c")
            return x * 0
        finally:
            log.append("d")

    return outer(), log


@program(*KS)
def unpacking_too_many(x, k):
    try:
        a, b = [x] * max(k, 0)
    except ValueError:
        return "count"
    return a + b


@program(*KS)
def continue_and_finally(x, k):
    n = 0
    for i in range(3):
        try:
            if i == k:
                continue
            x = x + 1
        finally:
            n += 1
    return x, n


@program(*KS)
def break_and_finally(x, k):
    n = 0
    while True:
        try:
            n += 1
            if n > k:
                break
        finally:
            n += 10
    return x, n


@program(*KS)
def an_error_in_a_with(x, k):
    try:
        with torch.no_grad():
            y = check(x, k)
    except TooLarge:
        y = x * 2
    return y * 1, torch.is_grad_enabled()


@program(*KS)
def a_bare_except(x, k):
    try:
        return check(x, k).sum().item() > 1e9
    except:  # noqa: E722
        return "all"


@program(*KS)
def exceptions_of_different_arguments_are_shown(x, n):
    try:
        if n > 1:
            raise KeyError(n)
        raise ValueError("a", n)
    except (KeyError, ValueError) as e:
        print(repr(e), str(e), e, f"{e!r}")
        return x


@program(*KS)
def exceptions_in_containers_are_shown(x, n):
    e = ValueError()
    print([e, KeyError("a")], e)
    return repr(KeyError("k", 1)), x


class Failed(Exception):
    level = 3

    def __init__(self, code, at):
        super().__init__(f"code {code}")
        self.code, self.at = code, at

    def twice(self):
        return self.code * 2


class Broken(Failed):
    def __init__(self, code, at):
        super().__init__(code + 100, at)
        self.why = "broken"

    def __str__(self):
        return f"<{self.code} {self.why}>"


def failing(x, k):
    if k > 3:
        raise Broken(k, x)
    return k


@program(*KS, compilations=None)
def attributes_of_an_exception(x, n):
    out = []
    for k in range(n):
        try:
            if k == 1:
                raise Failed(k, x * 2)
            out.append((failing(x, k), "", "fine"))
        except Broken as error:
            error.seen = True
            out.append((error.code, str(error), error.why if error.seen else ""))
        except Failed as error:
            out.append((error.twice() + error.level, str(error), repr(error)))
            x = error.at
    return out, x
