"""The models of traces/models/, in plain torch, written op for op as they are usually trained.

A `Workload` is a model, a function that makes a batch, and a function from both to a loss.
`WORKLOADS` has them by name.  All sizes stand in the tables of this file.
"""
import math
import re
import sys
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import (CheckpointPolicy, checkpoint, checkpoint_sequential,
                                    create_selective_checkpoint_contexts)

import techniques


@dataclass
class Options:
    """What record.py was asked for and a model must know."""
    attention: str = "eager"        # or sdpa
    checkpoint: str = ""            # or block, reentrant, matmuls, sequential, attention
    segments: int = 0               # of a sequential checkpoint
    inplace: bool = False           # activations and residual sums
    activation: str = "relu"        # where a model has relu
    chunk: str = ""                 # loss, attention, or mlp
    chunks: int = 0
    fused: bool = False             # dropouts and the sums before or behind them
    skips: str = ""                 # or placed: made where they are joined
    tied: bool = True
    sequence: int = 0
    image: int = 0


@dataclass
class Workload:
    model: nn.Module
    batch: object                   # (samples, step) -> tuple of tensors
    loss: object                    # (model, *batch) -> scalar
    sequence: int = 0
    image: int = 0
    about: dict = field(default_factory=dict)


MATMULS = {torch.ops.aten.mm.default, torch.ops.aten.addmm.default, torch.ops.aten.bmm.default}


def keep_matmuls():
    """The policy of a selective checkpoint: products are saved, all else is recomputed."""
    def policy(_, op, *args, **kwargs):
        return (CheckpointPolicy.MUST_SAVE if op in MATMULS
                else CheckpointPolicy.PREFER_RECOMPUTE)
    return create_selective_checkpoint_contexts(policy)


def run_block(options, block, *args):
    """Calls a block, or has it recomputed in backward."""
    if options.checkpoint not in ("block", "reentrant", "matmuls") or not torch.is_grad_enabled():
        return block(*args)
    if options.checkpoint == "matmuls":
        return checkpoint(block, *args, use_reentrant=False, context_fn=keep_matmuls)
    return checkpoint(block, *args, use_reentrant=options.checkpoint == "reentrant")


def run_blocks(options, blocks, x, *args):
    """A stack of blocks, one after another, or cut into segments that are recomputed."""
    if options.checkpoint == "sequential":
        steps = [lambda x, block=block: block(x, *args) for block in blocks]
        return checkpoint_sequential(steps, options.segments, x, use_reentrant=False)
    for block in blocks:
        x = run_block(options, block, x, *args)
    return x


# ---- plans for a chain of stages ---------------------------------------------------------------

def parse_plan(text):
    """Stages by number, in order, as in [[0-3]4-9]10-16: what stands in brackets is recomputed in
    backward, and what stands in brackets within is then run without being saved, and once more.
    Gives numbers and lists of the same."""
    stack = [[]]
    for word in re.findall(r"\[|\]|[0-9]+(?:-[0-9]+)?", text):
        if word == "[":
            stack.append([])
        elif word == "]":
            inner = stack.pop()
            stack[-1].append(inner)
        else:
            first, _, last = word.partition("-")
            stack[-1] += range(int(first), int(last or first) + 1)
    return stack[0]


def stages_of(plan):
    return [i for part in plan for i in (stages_of(part) if isinstance(part, list) else [part])]


def run_plan(plan, stages, x):
    for part in plan:
        if isinstance(part, list):
            x = checkpoint(run_plan, part, stages, x, use_reentrant=False)
        else:
            x = stages[part](x)
    return x


def follow_plan(model, text):
    """The model then gives its loss.  It says what its stages are, each a function of what the
    one before it made; the plan has to name them all."""
    plan = parse_plan(text)

    def forward(x, *more):
        stages = model.stages(x, *more)
        if stages_of(plan) != list(range(len(stages))):
            sys.exit(f"models.py: the model has {len(stages)} stages, which the plan '{text}' does "
                     "not name in order")
        return run_plan(plan, stages, x)
    model.forward = forward
    return lambda model, *batch: model(*batch)


def loss_stages(labels):
    """cross_entropy, op by op."""
    return [lambda x: F.log_softmax(x, dim=1), lambda x: F.nll_loss(x, labels)]


def in_chunks(options, what, run, *whole):
    """`run` on all, or on pieces of the tokens (second dimension), each recomputed in backward."""
    if options.chunk != what:
        return [run(*whole)]
    pieces = zip(*(t.chunk(options.chunks, dim=1) for t in whole))
    return [checkpoint(run, *piece, use_reentrant=False) for piece in pieces]


def residual(options, x, y):
    """x + y, where nobody else needs y."""
    if options.fused:
        return techniques.DropoutAdd.apply(y, x, 0.1)
    return y.add_(x) if options.inplace == "all" else x + y


def activation(options):
    return {"relu": nn.ReLU, "leaky-relu": lambda inplace: nn.LeakyReLU(0.01, inplace),
            "elu": lambda inplace: nn.ELU(1.0, inplace)}[options.activation](bool(options.inplace))


def tokens(vocabulary, *shape):
    return torch.randint(0, vocabulary, shape)


def token_loss(logits, labels):
    return F.cross_entropy(logits.view(-1, logits.shape[-1]), labels.reshape(-1))


def attend(options, q, k, v, mask=None, dropout=0.0, causal=False, training=True):
    """Attention over (samples, heads, positions, width), by its formula or by the fused kernel."""
    dropout = dropout if training else 0.0
    if options.attention == "sdpa":
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout,
                                              is_causal=causal)
    return by_formula(options, q, k, v, mask, causal, lambda w: F.dropout(w, dropout, training))


def by_formula(options, q, k, v, mask, causal, drop):
    """The core of attention; recomputed, whole or in pieces of the queries, if that is asked for."""
    def core(q, k, v, begin):
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.shape[-1])
        if causal:
            ahead = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).triu(1 + begin)
            scores = scores.masked_fill(ahead, -torch.inf)
        if mask is not None:
            scores = scores + mask
        return torch.matmul(drop(F.softmax(scores, dim=-1)), v)

    pieces = options.chunks if options.chunk == "attention" else 1
    if pieces == 1 and options.checkpoint != "attention" or not torch.is_grad_enabled():
        return core(q, k, v, 0)
    out, begin = [], 0
    for piece in q.chunk(pieces, dim=2) if pieces > 1 else [q]:
        out.append(checkpoint(core, piece, k, v, begin, use_reentrant=False))
        begin += piece.shape[2]
    return torch.cat(out, dim=2) if pieces > 1 else out[0]


# ---- BERT and ALBERT ---------------------------------------------------------------------------

BERT = {"base": dict(layers=12, hidden=768, heads=12), "large": dict(layers=24, hidden=1024,
                                                                    heads=16)}


class BertSelf(nn.Module):
    def __init__(self, hidden, heads, options):
        super().__init__()
        self.heads, self.options = heads, options
        self.query, self.key, self.value = (nn.Linear(hidden, hidden) for _ in range(3))
        self.dropout = nn.Dropout(0.1)

    def split(self, x):
        return x.view(*x.shape[:2], self.heads, -1).permute(0, 2, 1, 3)

    def forward(self, x, mask):
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        if self.options.attention == "sdpa":
            out = attend(self.options, q, k, v, mask, 0.1, training=self.training)
        else:
            out = by_formula(self.options, q, k, v, mask, False, self.dropout)
        return out.permute(0, 2, 1, 3).contiguous().view(x.shape)


class BertOutput(nn.Module):
    """Projection, dropout, sum with what went in, normalisation."""

    def __init__(self, inner, hidden, options):
        super().__init__()
        self.options = options
        self.dense, self.norm = nn.Linear(inner, hidden), nn.LayerNorm(hidden, eps=1e-12)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x, residual):
        y = self.dropout(self.dense(x))
        return self.norm(y.add_(residual) if self.options.inplace == "all" else y + residual)


class BertLayer(nn.Module):
    def __init__(self, hidden, heads, options):
        super().__init__()
        self.options = options
        self.attention = BertSelf(hidden, heads, options)
        self.attention_output = BertOutput(hidden, hidden, options)
        self.intermediate = nn.Linear(hidden, 4 * hidden)
        self.output = BertOutput(4 * hidden, hidden, options)

    def mlp(self, x):
        return self.output(F.gelu(self.intermediate(x)), x)

    def forward(self, x, mask):
        x = self.attention_output(self.attention(x, mask), x)
        pieces = in_chunks(self.options, "mlp", self.mlp, x)
        return torch.cat(pieces, 1) if len(pieces) > 1 else pieces[0]


class BertEmbeddings(nn.Module):
    def __init__(self, width, vocabulary=30522):
        super().__init__()
        self.word = nn.Embedding(vocabulary, width, padding_idx=0)
        self.position, self.token_type = nn.Embedding(512, width), nn.Embedding(2, width)
        self.norm, self.dropout = nn.LayerNorm(width, eps=1e-12), nn.Dropout(0.1)
        self.register_buffer("positions", torch.arange(512).expand(1, -1))

    def forward(self, ids, types):
        x = self.word(ids) + self.token_type(types)
        x = x + self.position(self.positions[:, :ids.shape[1]])
        return self.dropout(self.norm(x))


class Bert(nn.Module):
    """With a masked-language head (tied to the word embedding) or a classifier."""

    def __init__(self, size, head, options, vocabulary=30522):
        super().__init__()
        layers, hidden, heads = size["layers"], size["hidden"], size["heads"]
        self.options, self.head = options, head
        self.embeddings = BertEmbeddings(hidden)
        self.layers = nn.ModuleList(BertLayer(hidden, heads, options) for _ in range(layers))
        self.pooler = nn.Linear(hidden, hidden)
        if head == "mlm":
            self.transform, self.norm = nn.Linear(hidden, hidden), nn.LayerNorm(hidden, eps=1e-12)
            self.decoder = nn.Linear(hidden, vocabulary)
            if options.tied:
                self.decoder.weight = self.embeddings.word.weight
        else:
            self.dropout, self.classifier = nn.Dropout(0.1), nn.Linear(hidden, 2)

    def forward(self, ids, types, attention_mask):
        mask = None
        if self.options.attention == "eager":   # full sentences need none in the fused kernel
            mask = (1.0 - attention_mask[:, None, None, :].to(self.pooler.weight.dtype))
            mask = mask * torch.finfo(mask.dtype).min
        x = self.embeddings(ids, types)
        x = run_blocks(self.options, self.layers, x, mask)
        pooled = torch.tanh(self.pooler(x[:, 0]))
        if self.head == "mlm":
            return self.decoder(self.norm(F.gelu(self.transform(x))))
        return self.classifier(self.dropout(pooled))


def bert_batch(head, sequence, step):
    def make(samples, number=0):
        length = sequence(number) if callable(sequence) else sequence
        labels = tokens(30522, samples, length) if head == "mlm" else tokens(2, samples)
        return (tokens(30522, samples, length), torch.zeros(samples, length, dtype=torch.long),
                torch.ones(samples, length, dtype=torch.long), labels)
    return make


def bert_loss(model, ids, types, mask, labels):
    return token_loss(model(ids, types, mask), labels)


def bert(size, head):
    def build(options):
        sequence = options.sequence or 128
        return Workload(Bert(BERT[size], head, options), bert_batch(head, sequence, 0), bert_loss,
                        sequence)
    return build


#: Lengths of the batches of a run that sorts sentences by nothing.
LENGTHS = (128, 64, 200, 96, 256, 48, 160, 128)


def bert_changing(options):
    """Every step another length, as with padding to the longest of the batch."""
    return Workload(Bert(BERT["base"], "classifier", options),
                    bert_batch("classifier", lambda n: LENGTHS[n % len(LENGTHS)], 0), bert_loss)


class Albert(nn.Module):
    """One layer run twelve times, or twelve layers; and a factorised embedding."""

    def __init__(self, options, layers=12, hidden=768, heads=12, width=128, vocabulary=30000):
        super().__init__()
        self.options, self.repeats = options, layers
        self.embeddings = BertEmbeddings(width, vocabulary)
        self.up, self.layer = nn.Linear(width, hidden), BertLayer(hidden, heads, options)
        if not options.tied:
            self.more = nn.ModuleList(BertLayer(hidden, heads, options) for _ in range(layers - 1))
        self.transform, self.norm = nn.Linear(hidden, width), nn.LayerNorm(width, eps=1e-12)
        self.decoder = nn.Linear(width, vocabulary)
        self.decoder.weight = self.embeddings.word.weight

    def forward(self, ids, types, attention_mask):
        x = self.up(self.embeddings(ids, types))
        layers = [self.layer] * self.repeats
        if not self.options.tied:
            layers[1:] = self.more
        x = run_blocks(self.options, layers, x, None)
        return self.decoder(self.norm(F.gelu(self.transform(x))))


def albert(options):
    sequence = options.sequence or 128
    def make(samples, number=0):
        ids = tokens(30000, samples, sequence)
        return (ids, torch.zeros_like(ids), torch.ones_like(ids),
                tokens(30000, samples, sequence))
    return Workload(Albert(options), make, bert_loss, sequence)


# ---- GPT-2, and its inference ------------------------------------------------------------------

GPT2 = {"small": dict(layers=12, hidden=768, heads=12), "xl": dict(layers=48, hidden=1600,
                                                                  heads=25)}


class GptAttention(nn.Module):
    def __init__(self, hidden, heads, options):
        super().__init__()
        self.heads, self.options = heads, options
        self.qkv, self.projection = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x, past=None, cache=False):
        samples, length, hidden = x.shape
        q, k, v = (t.view(samples, length, self.heads, -1).transpose(1, 2)
                   for t in self.qkv(x).split(hidden, dim=2))
        if past is not None:
            k, v = torch.cat((past[0], k), dim=2), torch.cat((past[1], v), dim=2)
        y = attend(self.options, q, k, v, None, 0.1, causal=past is None, training=self.training)
        if self.options.fused:
            y = self.projection(y.transpose(1, 2).contiguous().view(x.shape))
        else:
            y = self.dropout(self.projection(y.transpose(1, 2).contiguous().view(x.shape)))
        return (y, (k, v)) if cache else y


class GptBlock(nn.Module):
    def __init__(self, hidden, heads, options):
        super().__init__()
        self.options = options
        self.norm_1, self.attention = nn.LayerNorm(hidden), GptAttention(hidden, heads, options)
        self.norm_2 = nn.LayerNorm(hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)
        self.dropout = nn.Dropout(0.1)

    def mlp(self, x):
        if self.options.fused:
            return self.down(F.gelu(self.up(x), approximate="tanh"))
        return self.dropout(self.down(F.gelu(self.up(x), approximate="tanh")))

    def attended(self, x):
        return residual(self.options, x, self.attention(self.norm_1(x)))

    def fed(self, x):
        return residual(self.options, x, self.mlp(self.norm_2(x)))

    def forward(self, x, past=None, cache=False):
        """With keys and values of this and of all before if a cache is asked for."""
        y = self.attention(self.norm_1(x), past, cache)
        if not cache:
            x = residual(self.options, x, y)
            return residual(self.options, x, self.mlp(self.norm_2(x)))
        x = x + y[0]
        return x + self.mlp(self.norm_2(x)), y[1]


class Gpt(nn.Module):
    def __init__(self, size, options, vocabulary=50257, positions=1024):
        super().__init__()
        hidden = size["hidden"]
        self.options = options
        self.token, self.position = nn.Embedding(vocabulary, hidden), nn.Embedding(positions,
                                                                                   hidden)
        self.dropout = nn.Dropout(0.1)
        self.blocks = nn.ModuleList(GptBlock(hidden, size["heads"], options)
                                    for _ in range(size["layers"]))
        self.norm = nn.LayerNorm(hidden)
        self.head = nn.Linear(hidden, vocabulary, bias=False)
        if options.tied:
            self.head.weight = self.token.weight

    def embed(self, ids, begin=0):
        place = torch.arange(begin, begin + ids.shape[1])
        if self.options.fused:
            return techniques.AddDropout.apply(self.token(ids), self.position(place), 0.1)
        return self.dropout(self.token(ids) + self.position(place))

    def hidden(self, ids):
        return self.norm(run_blocks(self.options, self.blocks, self.embed(ids)))

    def forward(self, ids):
        return self.head(self.hidden(ids))

    def stages(self, ids, labels):
        """What is added up first is made first, positions before all."""
        halves = [half for block in self.blocks for half in (block.attended, block.fed)]
        logits = lambda x: self.head(x).view(-1, self.head.out_features)
        return [lambda ids: torch.arange(ids.shape[1]),
                lambda place: self.token(ids) + self.position(place), self.dropout, *halves,
                self.norm, logits, *loss_stages(labels.reshape(-1))]

    def generate(self, ids, new):
        """Tokens one by one; keys and values of all before are kept and grow."""
        past, x = [None] * len(self.blocks), ids
        begin = 0
        for _ in range(new):
            h = self.embed(x, begin)
            begin += x.shape[1]
            for i, block in enumerate(self.blocks):
                h, past[i] = block(h, past[i], True)
            x = self.head(self.norm(h[:, -1:])).argmax(-1)
        return x


def language_batch(vocabulary, sequence):
    def make(samples, number=0):
        return tokens(vocabulary, samples, sequence), tokens(vocabulary, samples, sequence)
    return make


def language_loss(model, ids, labels):
    """Of all tokens at once, or of pieces of them, whose scores never live together."""
    options = getattr(model, "options", None)
    if options is None or options.chunk != "loss":
        return token_loss(model(ids), labels)
    pieces = in_chunks(options, "loss", lambda x, y: token_loss(model.head(x), y),
                       model.hidden(ids), labels)
    return torch.stack(pieces).mean()


def gpt2(size):
    def build(options):
        sequence = options.sequence or 1024
        return Workload(Gpt(GPT2[size], options), language_batch(50257, sequence), language_loss,
                        sequence)
    return build


def gpt2_generate(options):
    """Inference: a prompt, then tokens one at a time."""
    sequence = options.sequence or 128
    model = Gpt(GPT2["small"], options).eval()
    return Workload(model, lambda samples, number=0: (tokens(50257, samples, sequence),),
                    lambda model, ids: model.generate(ids, 32), sequence, about={"inference": True})


# ---- LLaMA -------------------------------------------------------------------------------------

LLAMA = {"7b": dict(layers=32, hidden=4096, heads=32, inner=11008)}


class RmsNorm(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, x):
        y = x.to(torch.float32)
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * y.to(x.dtype)


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


class LlamaBlock(nn.Module):
    def __init__(self, hidden, heads, inner, options):
        super().__init__()
        self.heads, self.options = heads, options
        self.norm_1, self.norm_2 = RmsNorm(hidden), RmsNorm(hidden)
        self.q, self.k, self.v, self.o = (nn.Linear(hidden, hidden, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(hidden, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, hidden, bias=False)

    def attention(self, x, cos, sin):
        q, k, v = (f(x).view(*x.shape[:2], self.heads, -1).transpose(1, 2)
                   for f in (self.q, self.k, self.v))
        y = attend(self.options, rotate(q, cos, sin), rotate(k, cos, sin), v, causal=True)
        return self.o(y.transpose(1, 2).contiguous().view(x.shape))

    def mlp(self, y):
        return self.down(F.silu(self.gate(y)) * self.up(y))

    def forward(self, x, cos, sin):
        x = residual(self.options, x, self.attention(self.norm_1(x), cos, sin))
        pieces = in_chunks(self.options, "mlp", self.mlp, self.norm_2(x))
        return residual(self.options, x, torch.cat(pieces, 1) if len(pieces) > 1 else pieces[0])


class Llama(nn.Module):
    def __init__(self, size, sequence, options, vocabulary=32000):
        super().__init__()
        hidden, heads = size["hidden"], size["heads"]
        self.options, self.token = options, nn.Embedding(vocabulary, hidden)
        self.blocks = nn.ModuleList(LlamaBlock(hidden, heads, size["inner"], options)
                                    for _ in range(size["layers"]))
        self.norm, self.head = RmsNorm(hidden), nn.Linear(hidden, vocabulary, bias=False)
        for name in ("cos", "sin"):
            self.register_buffer(name, torch.zeros(sequence, hidden // heads))

    def hidden(self, ids):
        return self.norm(run_blocks(self.options, self.blocks, self.token(ids), self.cos, self.sin))

    def forward(self, ids):
        return self.head(self.hidden(ids))


def llama_loss(model, ids, labels):
    if model.options.chunk != "loss":
        return token_loss(model(ids).float(), labels)
    pieces = in_chunks(model.options, "loss", lambda x, y: token_loss(model.head(x).float(), y),
                       model.hidden(ids), labels)
    return torch.stack(pieces).mean()


def llama(size):
    def build(options):
        sequence = options.sequence or 2048
        return Workload(Llama(LLAMA[size], sequence, options), language_batch(32000, sequence),
                        llama_loss, sequence)
    return build


# ---- images: ViT, ResNet, VGG, U-Net -----------------------------------------------------------

class VitBlock(nn.Module):
    def __init__(self, hidden, heads, options):
        super().__init__()
        self.heads, self.options = heads, options
        self.norm_1, self.norm_2 = nn.LayerNorm(hidden, eps=1e-6), nn.LayerNorm(hidden, eps=1e-6)
        self.qkv, self.projection = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def attention(self, x):
        samples, length, _ = x.shape
        q, k, v = self.qkv(x).view(samples, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = attend(self.options, q, k, v)
        return self.projection(y.transpose(1, 2).reshape(x.shape))

    def forward(self, x):
        x = residual(self.options, x, self.attention(self.norm_1(x)))
        return residual(self.options, x, self.down(F.gelu(self.up(self.norm_2(x)))))


class Vit(nn.Module):
    def __init__(self, image, options, layers=12, hidden=768, heads=12, patch=16, classes=1000):
        super().__init__()
        self.options = options
        self.patches = nn.Conv2d(3, hidden, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, hidden))
        self.position = nn.Parameter(torch.zeros(1, (image // patch) ** 2 + 1, hidden))
        self.blocks = nn.ModuleList(VitBlock(hidden, heads, options) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(hidden, eps=1e-6), nn.Linear(hidden, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), dim=1) + self.position
        return self.head(self.norm(run_blocks(self.options, self.blocks, x))[:, 0])


class Bottleneck(nn.Module):
    def __init__(self, channels, width, stride, options):
        super().__init__()
        out = 4 * width
        self.conv_1, self.norm_1 = nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv_2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.norm_2 = nn.BatchNorm2d(width)
        self.conv_3, self.norm_3 = nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out)
        self.relu, self.options = nn.ReLU(bool(options.inplace)), options
        self.shortcut = None
        if stride != 1 or channels != out:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False),
                                          nn.BatchNorm2d(out))

    def forward(self, x):
        y = self.relu(self.norm_1(self.conv_1(x)))
        y = self.relu(self.norm_2(self.conv_2(y)))
        y = self.norm_3(self.conv_3(y))
        x = x if self.shortcut is None else self.shortcut(x)
        return self.relu(y.add_(x) if self.options.inplace == "all" else y + x)

    def sum(self, x):
        """The same without the last activation: a stage."""
        y = self.relu(self.norm_1(self.conv_1(x)))
        y = self.relu(self.norm_2(self.conv_2(y)))
        y = self.norm_3(self.conv_3(y))
        x = x if self.shortcut is None else self.shortcut(x)
        return y.add_(x) if self.options.inplace == "all" else y + x


RESNET = {"50": (3, 4, 6, 3), "152": (3, 8, 36, 3)}


class ResNet(nn.Module):
    def __init__(self, stages, options, classes=1000):
        super().__init__()
        self.options = options
        self.conv, self.norm = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        self.relu, self.pool = nn.ReLU(bool(options.inplace)), nn.MaxPool2d(3, 2, 1)
        self.blocks, channels = nn.ModuleList(), 64
        for i, n in enumerate(stages):
            for j in range(n):
                width, stride = 64 << i, 2 if i and not j else 1
                self.blocks.append(Bottleneck(channels, width, stride, options))
                channels = 4 * width
        self.average, self.head = nn.AdaptiveAvgPool2d(1), nn.Linear(channels, classes)

    def forward(self, x):
        x = self.pool(self.relu(self.norm(self.conv(x))))
        x = run_blocks(self.options, self.blocks, x)
        return self.head(self.average(x).flatten(1))

    def stages(self, _, labels):
        blocks = [half for block in self.blocks for half in (block.sum, block.relu)]
        return [self.conv, self.norm, self.relu, self.pool, *blocks, self.average,
                lambda x: self.head(x.flatten(1)), *loss_stages(labels)]


class Vgg(nn.Module):
    def __init__(self, options, depths=(2, 2, 3, 3, 3), classes=1000):
        super().__init__()
        layers, channels, self.ends, self.options = [], 3, [0], options
        for width, n in zip((64, 128, 256, 512, 512), depths):
            for _ in range(n):
                layers += [nn.Conv2d(channels, width, 3, padding=1), activation(options)]
                channels = width
            layers.append(nn.MaxPool2d(2))
            self.ends.append(len(layers))
        self.features, self.average = nn.Sequential(*layers), nn.AdaptiveAvgPool2d(7)
        self.classifier = nn.Sequential(
            nn.Linear(512 * 49, 4096), activation(options), nn.Dropout(),
            nn.Linear(4096, 4096), activation(options), nn.Dropout(),
            nn.Linear(4096, classes))

    def run_features(self, x):
        if self.options.checkpoint == "sequential":
            return checkpoint_sequential(self.features, self.options.segments, x,
                                         use_reentrant=False)
        if self.options.checkpoint:
            for begin, end in zip(self.ends, self.ends[1:]):
                x = run_block(self.options, self.features[begin:end], x)
            return x
        return self.features(x)

    def forward(self, x):
        return self.classifier(self.average(self.run_features(x)).flatten(1))

    def stages(self, _, labels):
        first, *others = self.classifier
        return [*self.features, self.average, lambda x: first(x.flatten(1)), *others,
                *loss_stages(labels)]


class UNet(nn.Module):
    """Down and up with skip connections, padded so that sizes stay, batch normalisation."""

    def __init__(self, options, classes=2, width=64, depth=4):
        super().__init__()
        self.options = options
        sizes = [width << i for i in range(depth + 1)]
        self.down = nn.ModuleList(self.pair(a, b) for a, b in zip([3] + sizes, sizes))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2)
                                for a, b in zip(sizes[-2::-1], sizes[:0:-1]))
        self.join = nn.ModuleList(self.pair(2 * a, a) for a in sizes[-2::-1])
        self.pool, self.head = nn.MaxPool2d(2), nn.Conv2d(width, classes, 1)

    def pair(self, a, b):
        layers = []
        for channels in (a, b):
            layers += [nn.Conv2d(channels, b, 3, padding=1, bias=False), nn.BatchNorm2d(b),
                       activation(self.options)]
        return nn.Sequential(*layers)

    def forward(self, x):
        skips = []
        for i, block in enumerate(self.down):
            x = run_block(self.options, block, self.pool(x) if i else x)
            skips.append(x)
        skips.pop()
        for up, join in zip(self.up, self.join):
            x = run_block(self.options, join, torch.cat((skips.pop(), up(x)), dim=1))
        return self.head(x)


class PlacedUNet(UNet):
    """Skips are made inside the room in which they are joined."""

    def __init__(self, options):
        super().__init__(options)
        self.rooms = []

    def forward(self, x):
        skips = []
        for i, block in enumerate(self.down):
            x = self.go_down(block, self.pool(x) if i else x, i + 1 < len(self.down))
            skips.append(x)
        skips.pop()
        for up, join in zip(self.up, self.join):
            x = run_block(self.options, join, self.joined(skips.pop(), up(x)))
        return self.head(x)

    def go_down(self, block, x, skips):
        if not skips:
            return run_block(self.options, block, x)
        x = block[:-1](x)
        self.rooms.append(techniques.Room(x.shape[0], 2 * x.shape[1], *x.shape[2:]))
        return techniques.ReluInRoom.apply(x, self.rooms[-1])

    def joined(self, skip, x):
        return techniques.JoinInRoom.apply(skip, x, self.rooms.pop())


def image_loss(model, x, labels):
    return F.cross_entropy(model(x), labels)


def image_batch(image, classes, dense=False):
    def make(samples, number=0):
        labels = (samples, image, image) if dense else (samples,)
        return torch.randn(samples, 3, image, image), tokens(classes, *labels)
    return make


def picture(make_model, classes=1000, image=224, dense=False):
    def build(options):
        size = options.image or image
        return Workload(make_model(size, options), image_batch(size, classes, dense), image_loss,
                        image=size)
    return build


# ---- Stable-Diffusion-like U-Net ---------------------------------------------------------------

class SdResidual(nn.Module):
    def __init__(self, a, b, time):
        super().__init__()
        self.norm_1, self.conv_1 = nn.GroupNorm(32, a), nn.Conv2d(a, b, 3, padding=1)
        self.time = nn.Linear(time, b)
        self.norm_2, self.conv_2 = nn.GroupNorm(32, b), nn.Conv2d(b, b, 3, padding=1)
        self.shortcut = nn.Conv2d(a, b, 1) if a != b else None

    def forward(self, x, t):
        y = self.conv_1(F.silu(self.norm_1(x)))
        y = y + self.time(F.silu(t))[:, :, None, None]
        y = self.conv_2(F.silu(self.norm_2(y)))
        return y + (x if self.shortcut is None else self.shortcut(x))


class SdAttention(nn.Module):
    def __init__(self, channels, context, options, heads=8):
        super().__init__()
        self.heads, self.options = heads, options
        self.q = nn.Linear(channels, channels, bias=False)
        self.k, self.v = (nn.Linear(context, channels, bias=False) for _ in range(2))
        self.out = nn.Linear(channels, channels)

    def forward(self, x, context):
        q, k, v = (f(y).view(y.shape[0], y.shape[1], self.heads, -1).transpose(1, 2)
                   for f, y in ((self.q, x), (self.k, context), (self.v, context)))
        y = attend(self.options, q, k, v)
        return self.out(y.transpose(1, 2).reshape(x.shape))


class SdTransformer(nn.Module):
    """Self-attention, attention to the text, gated feed-forward."""

    def __init__(self, channels, text, options):
        super().__init__()
        self.norm, self.into = nn.GroupNorm(32, channels), nn.Conv2d(channels, channels, 1)
        self.norm_1, self.norm_2, self.norm_3 = (nn.LayerNorm(channels) for _ in range(3))
        self.self_attention = SdAttention(channels, channels, options)
        self.cross_attention = SdAttention(channels, text, options)
        self.up, self.down = nn.Linear(channels, 8 * channels), nn.Linear(4 * channels, channels)
        self.out = nn.Conv2d(channels, channels, 1)

    def forward(self, x, text):
        y = self.into(self.norm(x)).flatten(2).transpose(1, 2)
        z = self.norm_1(y)
        y = y + self.self_attention(z, z)
        y = y + self.cross_attention(self.norm_2(y), text)
        a, gate = self.up(self.norm_3(y)).chunk(2, dim=-1)
        y = y + self.down(a * F.gelu(gate))
        return x + self.out(y.transpose(1, 2).reshape(x.shape))


class SdStage(nn.Module):
    """A residual block and, where the resolution allows, a transformer."""

    def __init__(self, a, b, time, text, attends, options):
        super().__init__()
        self.residual = SdResidual(a, b, time)
        self.transformer = SdTransformer(b, text, options) if attends else None

    def forward(self, x, t, text):
        x = self.residual(x, t)
        return x if self.transformer is None else self.transformer(x, text)


class SdUNet(nn.Module):
    def __init__(self, options, widths=(320, 640, 1280, 1280), text=768):
        super().__init__()
        self.options, self.width, time = options, widths[0], 4 * widths[0]
        self.time = nn.Sequential(nn.Linear(widths[0], time), nn.SiLU(), nn.Linear(time, time))
        self.first = nn.Conv2d(4, widths[0], 3, padding=1)
        last = len(widths) - 1
        skips, channels = [widths[0]], widths[0]
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        for i, width in enumerate(widths):
            for _ in range(2):
                self.down.append(SdStage(channels, width, time, text, i < last, options))
                channels = width
                skips.append(channels)
            if i < last:
                self.down.append(nn.Conv2d(channels, channels, 3, 2, 1))
                skips.append(channels)
        self.middle = nn.ModuleList([SdStage(channels, channels, time, text, True, options),
                                     SdResidual(channels, channels, time)])
        for i, width in reversed(list(enumerate(widths))):
            for _ in range(3):
                self.up.append(SdStage(channels + skips.pop(), width, time, text, i < last,
                                       options))
                channels = width
            if i:
                self.up.append(nn.Conv2d(channels, channels, 3, padding=1))
        self.norm, self.last = nn.GroupNorm(32, channels), nn.Conv2d(channels, 4, 3, padding=1)

    def embed_time(self, t):
        half = self.width // 2
        scale = torch.exp(torch.arange(half, dtype=torch.float32) * (-math.log(1e4) / half))
        angle = t[:, None].float() * scale
        both = torch.cat((angle.cos(), angle.sin()), dim=1)
        return self.time(both.to(self.time[0].weight.dtype))

    def forward(self, x, t, text):
        t, x = self.embed_time(t), self.first(x)
        skips = [x]
        for block in self.down:
            x = (run_block(self.options, block, x, t, text) if isinstance(block, SdStage)
                 else block(x))
            skips.append(x)
        x = self.middle[1](self.middle[0](x, t, text), t)
        for block in self.up:
            if isinstance(block, SdStage):
                x = run_block(self.options, block, torch.cat((x, skips.pop()), 1), t, text)
            else:
                x = block(F.interpolate(x, scale_factor=2.0, mode="nearest"))
        return self.last(F.silu(self.norm(x)))


def sd_unet(options):
    """Noise prediction on latents, an eighth of the image wide, under a text of 77 tokens."""
    size = (options.image or 512) // 8
    model = SdUNet(options)
    dtype = model.first.weight.dtype
    def make(samples, number=0):
        latents = torch.randn(samples, 4, size, size, dtype=dtype)
        return (latents, tokens(1000, samples), torch.randn(samples, 77, 768, dtype=dtype),
                torch.randn_like(latents))
    return Workload(model, make, lambda m, x, t, text, noise: F.mse_loss(m(x, t, text), noise),
                    image=8 * size)


# ---- LSTM, mixture of experts ------------------------------------------------------------------

class Lstm(nn.Module):
    """Word language model with two layers."""

    def __init__(self, vocabulary=10000, hidden=650, layers=2):
        super().__init__()
        self.token, self.dropout = nn.Embedding(vocabulary, hidden), nn.Dropout(0.5)
        self.cells = nn.ModuleList(nn.LSTMCell(hidden, hidden) for _ in range(layers))
        self.head = nn.Linear(hidden, vocabulary)

    def forward(self, ids):
        x = self.dropout(self.token(ids)).unbind(1)
        for cell in self.cells:
            state, out = None, []
            for step in x:
                state = cell(step, state)
                out.append(state[0])
            x = self.dropout(torch.stack(out, 1)).unbind(1)
        return self.head(torch.stack(x, 1))


def lstm(options):
    sequence = options.sequence or 35
    return Workload(Lstm(), language_batch(10000, sequence), language_loss, sequence)


class Experts(nn.Module):
    """Two of eight experts for each token, each expert with room for a fixed number of them."""

    def __init__(self, hidden, experts=8, capacity=1.25):
        super().__init__()
        self.experts, self.capacity = experts, capacity
        self.router = nn.Linear(hidden, experts, bias=False)
        self.up = nn.Parameter(torch.zeros(experts, hidden, 4 * hidden))
        self.down = nn.Parameter(torch.zeros(experts, 4 * hidden, hidden))

    def forward(self, x):
        flat = x.view(-1, x.shape[-1])
        room = int(2 * self.capacity * x.shape[1]) // self.experts * x.shape[0]
        weight, expert = F.softmax(self.router(flat), dim=-1).topk(2, dim=-1)
        chosen = F.one_hot(expert, self.experts).view(-1, self.experts)
        place = (chosen.cumsum(0) - 1).gather(1, expert.view(-1, 1)).squeeze(1)
        slot = expert.view(-1) * room + place.clamp(max=room - 1)
        twice = flat.repeat_interleave(2, dim=0)
        inbox = torch.zeros(self.experts * room, flat.shape[1], dtype=x.dtype)
        inbox = inbox.index_copy(0, slot, twice).view(self.experts, room, -1)
        outbox = torch.bmm(F.gelu(torch.bmm(inbox, self.up)), self.down).view(-1, flat.shape[1])
        y = outbox.index_select(0, slot) * weight.view(-1, 1)
        return y.view(-1, 2, flat.shape[1]).sum(1).view(x.shape)


class MoeBlock(GptBlock):
    def __init__(self, hidden, heads, options):
        super().__init__(hidden, heads, options)
        del self.up, self.down
        self.experts = Experts(hidden)

    def mlp(self, x):
        return self.dropout(self.experts(x))


class Moe(Gpt):
    """GPT-2 small whose every second block has experts."""

    def __init__(self, options):
        super().__init__(GPT2["small"], options)
        for i in range(1, len(self.blocks), 2):
            self.blocks[i] = MoeBlock(768, 12, options)


def moe(options):
    sequence = options.sequence or 512
    return Workload(Moe(options), language_batch(50257, sequence), language_loss, sequence)


WORKLOADS = {
    "bert-base-mlm": bert("base", "mlm"), "bert-base-classifier": bert("base", "classifier"),
    "bert-large-mlm": bert("large", "mlm"), "bert-large-classifier": bert("large", "classifier"),
    "bert-base-changing": bert_changing,
    "albert-base": albert,
    "gpt2-small": gpt2("small"), "gpt2-xl": gpt2("xl"), "gpt2-small-generate": gpt2_generate,
    "llama-7b": llama("7b"),
    "moe-small": moe,
    "lstm-650": lstm,
    "vit-b16": picture(Vit),
    "resnet50": picture(lambda image, o: ResNet(RESNET["50"], o)),
    "resnet152": picture(lambda image, o: ResNet(RESNET["152"], o)),
    "vgg16": picture(lambda image, o: Vgg(o)),
    "vgg19": picture(lambda image, o: Vgg(o, (2, 2, 4, 4, 4))),
    "unet": picture(lambda image, o: PlacedUNet(o) if o.skips else UNet(o), classes=2,
                    image=256, dense=True),
    "sd-unet": sd_unet,
}
