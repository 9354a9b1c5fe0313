"""The sections of a training recipe, as validated data: every key is known, and every value is checked.

The privacy section is `tacit.privacy.plan.PrivacyPlan`. `tacit.recipe.training` puts the sections together.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tacit.errors import RecipeError
from tacit.recipe.engine import GIVE_UP_S, PIECES, Ray
from tacit.runs.witness import Witness

# The range that every generator in use accepts: jax.random.key keeps 32 bits, NumPy refuses negative seeds.
Seed = Annotated[int, Field(ge=0, lt=2**32)]


class RecipeSection(BaseModel):
    """A part of a recipe: unknown keys are refused, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class DataSection(RecipeSection):
    """Users' data: a built-in world, or a store made by `tacit data import`."""

    world: Literal["keyboard"] | None = Field(default=None, description="a built-in world; instead of a store")
    store: str | None = Field(default=None, description="a store of users, its folder or its URL; instead of a world")
    users: int = Field(default=500_000, gt=0, description="users of the world")
    vocabulary: int = Field(
        default=2_000, ge=100, description="entries of the world's vocabulary, four reserved ones included"
    )
    world_seed: Seed = Field(default=1, description="makes one world out of many of its kind")
    held_out: int = Field(
        default=200,
        gt=0,
        le=100_000,
        description="users to measure accuracy on; from a store, at most this many of the users that it holds out",
    )
    shuffle_seed: Seed = Field(
        default=1, description="for the order of central training, and for dealing out examples under data.iid"
    )
    iid: bool = Field(
        default=False, description="reshuffle all examples into synthetic users (Memorization, section 3)"
    )
    layout: Literal["windows", "sentences"] = Field(
        default="windows", description="rows cut from a user's running text, or one sentence a row"
    )
    length: int = Field(default=10, gt=0, description="predictions per row")
    tokens_per_user: int = Field(
        default=1_600, gt=0, le=10**12, description="cap on one user's predictions, rounded up to whole batches"
    )

    @model_validator(mode="after")
    def _one_source(self) -> DataSection:
        if (self.world is None) == (self.store is None):
            raise ValueError("expected either data.world or data.store, got " + ("both" if self.world else "neither"))
        if self.iid and self.store is None:
            raise ValueError("expected data.iid = false with a world: only a store can be reshuffled")
        return self


class VocabularySection(RecipeSection):
    """Which words the model knows, discovered on the users of the store under differential privacy, at a cost of its own.

    The first words of a public list get a place unasked; the others compete with what people are found to use.
    """

    run: str | None = Field(
        default=None, description="the folder of a discovery that has finished; instead of making one"
    )
    words: str | None = Field(default=None, description="a public word list, the most frequent words first")
    size: int = Field(default=10_000, gt=4, description="entries of the vocabulary, four reserved ones included")
    sure: int | None = Field(
        default=None,
        ge=0,
        description="so many first words of the list get a place unasked; default: half of the places",
    )
    candidates: int | None = Field(
        default=None, ge=0, description="so many further words of the list compete for a place; default: all"
    )
    epsilon: float = Field(default=1.0, gt=0, allow_inf_nan=False, description="what the discovery may cost by itself")
    delta: float | None = Field(
        default=None, gt=0, lt=1, description="δ of the discovery by itself; default: a hundredth of privacy.delta"
    )
    words_per_user: int = Field(default=1_000, ge=1, description="words of a user that count, at most")
    largest_share: float = Field(
        default=0.5, gt=0, le=1, description="share of a word in a user's contribution, whose norm is 1, at most"
    )

    @model_validator(mode="after")
    def _fits_together(self) -> VocabularySection:
        if self.sure is not None and self.sure > self.size - 4:
            raise ValueError(f"expected vocabulary.sure ≤ {self.size - 4}, the places that there are, got {self.sure}")
        if self.words is None and (self.sure or self.candidates):
            raise ValueError("expected vocabulary.words, a public word list, with vocabulary.sure or candidates")
        return self


class PretrainSection(RecipeSection):
    """Central training on public text before the first round (Gboard, section 2.3): a store, or a built-in world.

    The world has another seed than the users' world, and its writers all have one style, so its text is distributed
    differently: tidy writers spell out and punctuate words that most others shorten or run together.
    """

    world: Literal["keyboard"] | None = Field(default=None, description="a built-in world; instead of a store")
    store: str | None = Field(
        default=None, description="a store of public text, its folder or its URL; instead of a world"
    )
    public: bool = Field(default=False, description="you assert that the store's text is public")
    world_seed: Seed = Field(default=2, description="another than the users' world has")
    style: Literal["tidy", "relaxed", "texter", "chatty"] | None = Field(
        default=None, description="how the world's users write; default: tidy"
    )
    users: int | None = Field(
        default=None, gt=0, description="how many users to read; default: 2,000 of a world, all of a store"
    )
    epochs: int | None = Field(default=None, gt=0, description="passes over the text; instead of steps")
    steps: int | None = Field(default=None, gt=0, description="number of batches; instead of epochs")
    batch_size: int = Field(default=32, gt=0, description="rows a batch")
    optimizer: Literal["sgd", "momentum", "nesterov", "adam"] = Field(
        default="adam", description="optimizer of pre-training"
    )
    learning_rate: float = Field(default=0.005, gt=0, allow_inf_nan=False, description="step size of the optimizer")
    momentum: float = Field(default=0.9, ge=0, lt=1, description="of momentum and nesterov; others ignore it")
    order_seed: Seed = Field(default=1, description="order of the public text")
    reuse: str | None = Field(
        default=None,
        description="a run with the same words and the same pre-training: its pre-trained model is taken, and not made again",
    )

    @model_validator(mode="after")
    def _one_source(self) -> PretrainSection:
        if (self.world is None) == (self.store is None):
            got = "both" if self.world else "neither"
            raise ValueError(f"expected either pretrain.world or pretrain.store, got {got}")
        if (self.epochs is None) == (self.steps is None):
            got = "both" if self.epochs else "neither"
            raise ValueError(f"expected either pretrain.epochs or pretrain.steps, got {got}")
        if self.store is not None and not self.public:
            raise ValueError(
                f"expected pretrain.public = true, which asserts that the text of pretrain.store = {self.store!r} is public, "
                "got false: a store is private unless you say otherwise"
            )
        if self.store is not None and self.style is not None:
            raise ValueError(f"expected pretrain.style with a world only, got {self.style!r}")
        return self


class ModelSection(RecipeSection):
    """A preset of `tacit.models.word_lm`, and values that replace the preset's. The vocabulary's size comes from the data."""

    preset: str = Field(
        default="tiny", description="a model by name: tiny, benchmark, dp-fedavg, production, gboard-10k, -20k or -30k"
    )
    cell: Literal["lstm", "cifg"] | None = Field(default=None, description="the recurrent cell")
    embedding: int | None = Field(default=None, gt=0, description="width of the word embeddings")
    units: int | None = Field(default=None, gt=0, description="units of the recurrent cell")
    projection: int | None = Field(default=None, gt=0, description="width of the cell's projected output")
    tied: bool | None = Field(default=None, description="one table for the words that go in and come out")
    output_bias: bool | None = Field(default=None, description="a bias for each word that comes out")
    unit_norm: bool | None = Field(default=None, description="word embeddings are scaled to norm 1")
    init_seed: Seed = Field(default=1, description="draws the parameters that training begins with")


class WorkSection(RecipeSection):
    """The local computation of one user."""

    kind: Literal["fedavg", "fedsgd"] = Field(
        default="fedavg", description="several local steps, or one gradient over all of a user's data"
    )
    epochs: int = Field(default=1, gt=0, description="passes over a user's data in one round")
    batch_size: int = Field(default=8, gt=0, description="rows a batch")
    learning_rate: float = Field(default=0.5, gt=0, allow_inf_nan=False, description="step size of the local SGD")
    clip_every_step: bool = Field(default=False, description="clip after each local step, as DP-FedAvg does")
    update_penalty: float = Field(
        default=0.0,
        ge=0,
        allow_inf_nan=False,
        description="weight of half the squared norm of the update in the loss of every local step (DP-FedAvg, appendix D)",
    )
    trainable: tuple[Literal["embedding", "cell", "output", "output_bias"], ...] = Field(
        default=(),
        description="the parts of the model that users train; the others stay as pre-training left them. Default: all",
    )

    @model_validator(mode="after")
    def _penalty_fits(self) -> WorkSection:
        if self.update_penalty and self.kind != "fedavg":
            raise ValueError(
                "expected work.update_penalty = 0 with 'fedsgd', whose one gradient is taken where the update is still zero, "
                f"got {self.update_penalty:g}"
            )
        if self.update_penalty * self.learning_rate >= 1:
            raise ValueError(
                f"expected work.update_penalty < 1/work.learning_rate = {1 / self.learning_rate:g}, got {self.update_penalty:g}"
            )
        return self


class ServerSection(RecipeSection):
    """The server's optimizer, which is applied to every release."""

    optimizer: Literal["sgd", "momentum", "nesterov", "adam"] = Field(
        default="sgd", description="how the server applies a release to the model"
    )
    learning_rate: float = Field(default=1.0, gt=0, allow_inf_nan=False, description="step size of the server")
    momentum: float = Field(default=0.9, ge=0, lt=1, description="of momentum and nesterov; others ignore it")
    schedule: Literal["constant", "linear", "cosine"] = Field(
        default="constant", description="how the learning rate falls over the run's rounds"
    )
    final: float = Field(
        default=0.0, ge=0, le=1, description="under a schedule: the share of the learning rate that the last round has"
    )
    warmup: int = Field(default=0, ge=0, description="rounds over which the learning rate rises at the beginning")
    average: Literal["none", "last", "exponential"] = Field(
        default="none",
        description="what the run hands on: the last model, the mean of the last ones, or an exponential average; it costs "
        "no privacy",
    )
    average_rounds: int = Field(default=10, gt=0, description="of last: how many models are averaged and kept")
    average_decay: float = Field(
        default=0.9, ge=0, lt=1, description="of exponential: how much less a model counts than the one after it"
    )


class RunSection(RecipeSection):
    """How long the run is, and how often it evaluates and saves a checkpoint."""

    rounds: int = Field(gt=0, description="rounds of training [T]")
    evaluate_every: int = Field(default=20, gt=0, description="rounds between two measurements of accuracy")
    evaluate_words: int = Field(
        default=20_000, gt=0, description="approximate number of held-out predictions per evaluation"
    )
    checkpoint_every: int = Field(default=10, gt=0, description="rounds between two checkpoints")
    seed: Seed | None = Field(
        default=None, description="makes the noise replayable, for research: the run is then not private"
    )


class WitnessSection(RecipeSection):
    """Somebody else's server that countersigns the head of the ledger, so that nobody can rewrite it unseen."""

    address: str = Field(description="where the witness listens, http://… or https://…")
    key: str = Field(description="its public key in one line, as `tacit witness key` prints it")
    required: bool = Field(
        default=True,
        description="nothing of a round is shown or saved before the witness has signed, and the run stops if it does not "
        "answer; otherwise the run goes on and says so",
    )

    @model_validator(mode="after")
    def _known(self) -> WitnessSection:
        self.witness()
        return self

    def witness(self) -> Witness:
        """The witness as a run uses it."""
        try:
            return Witness(address=self.address, key=self.key, required=self.required)
        except RecipeError as error:
            raise ValueError(f"{error.sentence[0].lower()}{error.sentence[1:].rstrip('.')}") from None


class EngineSection(RecipeSection):
    """How the simulation runs; apart from rounding, nothing here changes the result."""

    chunk: int | None = Field(default=None, gt=0, description="users per compiled call; default: chosen for the device")
    precision: Literal["float32", "tf32", "bf16"] = Field(
        default="float32", description="precision of matrix products; parameters and sums keep theirs"
    )
    kind: Literal["built-in", "ray"] = Field(
        default="built-in", description="who trains users: this process, or worker processes on Ray, on any machines"
    )
    address: str | None = Field(
        default=None, description="of a Ray cluster: auto, or host:port; default: Ray is started for the run"
    )
    workers: int | None = Field(default=None, gt=0, description="workers on Ray; default: as many as there is room for")
    gpus_per_worker: float | None = Field(
        default=None, ge=0, allow_inf_nan=False, description="GPUs of a worker on Ray; default: none, a CPU core"
    )
    pieces: int | None = Field(
        default=None,
        gt=0,
        description=f"pieces of a round on Ray, which decide how sums are rounded; default: {PIECES}",
    )
    give_up_s: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description=f"seconds after which a worker on Ray that is silent is replaced; default: {GIVE_UP_S:g}",
    )

    @model_validator(mode="after")
    def _keys_of_ray(self) -> EngineSection:
        given = [name for name in OF_RAY if getattr(self, name) is not None]
        if given and self.kind != "ray":
            raise ValueError(f"expected engine.kind = 'ray' with engine.{given[0]}, got 'built-in'")
        self.ray()
        return self

    def ray(self) -> Ray | None:
        """What is asked of Ray; None for the built-in engine."""
        if self.kind != "ray":
            return None
        given = {name: getattr(self, name) for name in OF_RAY}
        try:
            return Ray(**{name: value for name, value in given.items() if value is not None})
        except RecipeError as error:
            raise ValueError(f"{error.sentence[0].lower()}{error.sentence[1:].rstrip('.')}") from None


OF_RAY = ("address", "workers", "gpus_per_worker", "pieces", "give_up_s")


class PopulationSection(RecipeSection):
    """Devices that check in when they are available, instead of a uniform sample (Gboard, section 2.2; `tacit population`)."""

    timer_hours: float = Field(
        default=24.0, ge=0, allow_inf_nan=False, description="rest after a report, on the device"
    )
    over_selection: float = Field(default=1.3, ge=1, le=10, description="devices selected per report that is needed")
    deadline_hours: float = Field(
        default=12.0, gt=0, allow_inf_nan=False, description="how long a round waits for reports"
    )
    work_minutes: float = Field(
        default=2.5, gt=0, allow_inf_nan=False, description="time that the median device takes for its work"
    )
    drop_out: float = Field(
        default=0.06, ge=0, lt=1, description="probability that a device fails though its window lasts"
    )
    zones: str = Field(default="us", description="distribution of time zones: one, us, europe, world, or a list")
    seed: Seed = Field(default=1, description="draws the devices' habits and failures")


class FleetSection(RecipeSection):
    """Rounds on real devices (`tacit serve`); a simulation of the same recipe ignores this section."""

    evaluates: str | None = Field(
        default=None, description="a run whose model the devices evaluate, instead of training one"
    )
    over_selection: float = Field(default=1.3, ge=1, le=10, description="devices selected per report that is needed")
    deadline_s: float = Field(
        default=600.0, gt=0, allow_inf_nan=False, description="how long a round waits for reports"
    )
    replace_s: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="how long a selected device may be silent before another one is selected too; default: a quarter of the "
        "deadline",
    )
    timer_s: float = Field(
        default=86_400.0, ge=0, allow_inf_nan=False, description="rest after a report, on the device"
    )
    selection_s: float = Field(
        default=60.0, gt=0, allow_inf_nan=False, description="secure aggregation: how long to wait for devices to join"
    )
    stage_s: float = Field(
        default=60.0, gt=0, allow_inf_nan=False, description="secure aggregation: how long each stage waits"
    )
    dropout: float = Field(
        default=0.3, ge=0, lt=1, description="secure aggregation: share of devices that may drop out of a round"
    )
    corruption: float = Field(
        default=0.1, ge=0, lt=1, description="secure aggregation: share of devices that may collude with the server"
    )
    most_lost: int | None = Field(
        default=None,
        ge=1,
        description="after how many rounds that are lost after their intent, each of which costs privacy, the run stops; "
        "default: eight, or a twentieth of the rounds if that is more",
    )


class AuditSection(RecipeSection):
    """The audit of the gate in every round, and canaries planted among the users, to search the model for."""

    gate: bool = Field(default=True, description="test clipping and noise in every round with synthetic contributions")
    plan: str | None = Field(default=None, min_length=1, description="a canary plan made by `tacit audit plant`")
    public: str | None = Field(
        default=None, description="a store of public text, for synthetic devices; a world needs none"
    )
