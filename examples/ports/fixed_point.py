"""Fixed points with the derivatives of what they solve: each derivative is a fixed point, too."""

import phix


def fixed_point(step, a, guess, limit=1e-13):
    """The x of x = step(a, x), for a tree a and a number x that steps from the guess lead to."""

    @phix.custom_vjp
    def solve(a, guess):
        return phix.while_loop(lambda x: abs(step(a, x) - x) > limit, lambda x: step(a, x), guess)

    def forward(a, guess):
        x = solve(a, guess)
        return x, (a, x)

    def backward(saved, slope):
        def adjoint(given, w):
            slope, a, x = given
            return slope + phix.vjp(lambda x: step(a, x), x)[1](w)[0]

        a, x = saved
        w = fixed_point(adjoint, (slope, a, x), slope * 0, limit)
        return *phix.vjp(lambda a: step(a, x), a)[1](w), x * 0

    solve.defvjp(forward, backward)
    return solve(a, guess)


def square_root(a, guess=10.0):
    return fixed_point(lambda a, x: x - 0.05 * (x**2 - a), a, a * 0 + guess)


if __name__ == "__main__":
    root, two = square_root, phix.to_tensor(2.0, "float64")
    for order in range(3):
        print(root(two).item(), 2.0 ** (0.5 - order) * (1, 0.5, -0.25)[order])
        root = phix.grad(root)
