"""Techniques that are no option of PyTorch, written with it as those write them who ship them."""
import torch


class Masters:
    """An optimizer of parameters in 32 bits for a model in 16, as apex has it with opt_level O2:
    gradients are copied to 32 bits and unscaled there, new parameters copied back.

    `scale` is "none", "static" or "dynamic"."""

    def __init__(self, parameters, make_optimizer, scale):
        self.model = [p for p in parameters]
        self.masters = [torch.nn.Parameter(p.detach().float()) for p in self.model]
        self.optimizer = make_optimizer(self.masters)
        self.dynamic, self.factor = scale == "dynamic", 128.0 if scale == "static" else None
        if self.dynamic:
            self.factor = torch.full((), 65536.0)
            self.tracker = torch.zeros((), dtype=torch.int32)

    def scaling(self):
        return [self.factor, self.tracker] if self.dynamic else []

    def scale(self, loss):
        return loss if self.factor is None else loss.float() * self.factor

    def step(self):
        gradients = [torch.empty_like(m) for m in self.masters]
        torch._foreach_copy_(gradients, [p.grad for p in self.model])
        for master, gradient in zip(self.masters, gradients):
            master.grad = gradient
        found = self.unscale(gradients)
        del gradients
        with torch.device("cpu"):
            self.optimizer.step()
        self.optimizer.zero_grad()
        if self.dynamic:
            torch._amp_update_scale_(self.factor, self.tracker, found, 2.0, 0.5, 2000)
        with torch.no_grad():
            torch._foreach_copy_(self.model, self.masters)

    def unscale(self, gradients):
        if not self.dynamic:
            if self.factor is not None:
                torch._foreach_mul_(gradients, 1 / self.factor)
            return None
        inverse, found = self.factor.reciprocal(), torch.full((), 0.0)
        torch._amp_foreach_non_finite_check_and_unscale_(gradients, found, inverse)
        return found


# ---- in-place activated batch normalisation, as mapillary/inplace_abn has it -------------------
#
# Its kernels are ops that do nothing here but have their shapes.

@torch.library.custom_op("inplace_abn::statistics", mutates_args=())
def statistics(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    raise NotImplementedError


@statistics.register_fake
def _(x):
    return (x.new_empty(x.shape[1]), x.new_empty(x.shape[1]),
            x.new_empty(1, dtype=torch.long))


@torch.library.custom_op("inplace_abn::forward", mutates_args=("x",))
def abn_forward(x: torch.Tensor, mean: torch.Tensor, var: torch.Tensor, weight: torch.Tensor,
                bias: torch.Tensor) -> None:
    raise NotImplementedError


@abn_forward.register_fake
def _(x, mean, var, weight, bias):
    pass


@torch.library.custom_op("inplace_abn::backward_reduce", mutates_args=())
def backward_reduce(y: torch.Tensor, dy: torch.Tensor, weight: torch.Tensor,
                    bias: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor,
                                                 torch.Tensor]:
    raise NotImplementedError


@backward_reduce.register_fake
def _(y, dy, weight, bias):
    return (torch.empty_like(y), torch.empty_like(y), torch.empty_like(weight),
            torch.empty_like(weight))


@torch.library.custom_op("inplace_abn::backward_train", mutates_args=("dy",))
def backward_train(xhat: torch.Tensor, dy: torch.Tensor, var: torch.Tensor, count: torch.Tensor,
                   sum_dy: torch.Tensor, sum_xhat_dy: torch.Tensor,
                   weight: torch.Tensor) -> None:
    raise NotImplementedError


@backward_train.register_fake
def _(xhat, dy, var, count, sum_dy, sum_xhat_dy, weight):
    pass


class InPlaceAbn(torch.autograd.Function):
    """Keeps its result alone, in the place of what it read."""

    @staticmethod
    def forward(ctx, x, weight, bias, running_mean, running_var, momentum):
        mean, var, count = statistics(x)
        samples = count.to(var.dtype)
        running_mean.mul_(1 - momentum).add_(momentum * mean)
        running_var.mul_(1 - momentum).add_(momentum * var * samples / (samples - 1))
        abn_forward(x, mean, var, weight, bias)
        ctx.save_for_backward(x, var, count, weight, bias)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, dy):
        y, var, count, weight, bias = ctx.saved_tensors
        xhat, dx, sum_dy, sum_xhat_dy = backward_reduce(y, dy, weight, bias)
        backward_train(xhat, dx, var, count, sum_dy, sum_xhat_dy, weight)
        return dx, sum_xhat_dy, sum_dy, None, None, None


class JoinedNorm(torch.nn.Module):
    """A batch normalisation and the activation behind it."""

    def __init__(self, norm):
        super().__init__()
        self.norm = norm

    def forward(self, x):
        norm = self.norm
        return InPlaceAbn.apply(x, norm.weight, norm.bias, norm.running_mean, norm.running_var,
                                norm.momentum)


def join_norms(module):
    """Joins every batch normalisation with the activation behind it in a Sequential."""
    for child in module.children():
        join_norms(child)
    if isinstance(module, torch.nn.Sequential):
        for i in range(len(module) - 1):
            if (isinstance(module[i], torch.nn.BatchNorm2d)
                    and isinstance(module[i + 1], (torch.nn.LeakyReLU, torch.nn.ELU))):
                module[i], module[i + 1] = JoinedNorm(module[i]), torch.nn.Identity()


# ---- skips that are made where they are joined -------------------------------------------------

class Room:
    """Memory for a skip and for what is joined with it, channel by channel."""

    def __init__(self, *shape):
        self.whole = torch.empty(shape)

    def rows(self, begin, end):
        """Autograd counts what is written here apart from what is written elsewhere."""
        return self.whole.data[:, begin:end]


class ReluInRoom(torch.autograd.Function):
    """Writes its result into the first rows."""

    @staticmethod
    def forward(ctx, x, room):
        y = room.rows(0, x.shape[1])
        torch.ops.aten.relu.out(x, out=y)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, gradient):
        return torch.ops.aten.threshold_backward(gradient, ctx.saved_tensors[0], 0), None


class JoinInRoom(torch.autograd.Function):
    """The skip is there; the other tensor is copied behind it."""

    @staticmethod
    def forward(ctx, skip, x, room):
        ctx.skipped = skip.shape[1]
        room.rows(ctx.skipped, None).copy_(x)
        return room.whole

    @staticmethod
    def backward(ctx, gradient):
        return gradient[:, :ctx.skipped], gradient[:, ctx.skipped:], None


# ---- chains of ops that work number by number, as one kernel each ------------------------------

@torch.library.custom_op("fused::dropout_add", mutates_args=(),
                         tags=(torch.Tag.nondeterministic_seeded,))
def dropout_add(x: torch.Tensor, y: torch.Tensor, p: float) -> tuple[torch.Tensor, torch.Tensor]:
    raise NotImplementedError


@torch.library.custom_op("fused::add_dropout", mutates_args=(),
                         tags=(torch.Tag.nondeterministic_seeded,))
def add_dropout(x: torch.Tensor, y: torch.Tensor, p: float) -> tuple[torch.Tensor, torch.Tensor]:
    raise NotImplementedError


@dropout_add.register_fake
@add_dropout.register_fake
def _(x, y, p):
    return torch.empty_like(x), torch.empty_like(x, dtype=torch.bool)


class DropoutAdd(torch.autograd.Function):
    """dropout(x) + y"""

    @staticmethod
    def forward(ctx, x, y, p):
        out, mask = dropout_add(x, y, p)
        ctx.save_for_backward(mask)
        ctx.scale = 1 / (1 - p)
        return out

    @staticmethod
    def backward(ctx, gradient):
        back = torch.ops.aten.native_dropout_backward
        return back(gradient, ctx.saved_tensors[0], ctx.scale), gradient, None


class AddDropout(torch.autograd.Function):
    """dropout(x + y), y being the same for all samples"""

    @staticmethod
    def forward(ctx, x, y, p):
        out, mask = add_dropout(x, y, p)
        ctx.save_for_backward(mask)
        ctx.scale = 1 / (1 - p)
        return out

    @staticmethod
    def backward(ctx, gradient):
        back = torch.ops.aten.native_dropout_backward
        back = back(gradient, ctx.saved_tensors[0], ctx.scale)
        return back, back.sum(0), None
