"""Optuna's tree-structured Parzen estimator as a method of keelson.search."""

import json

from . import _errors


def _optuna():
    try:
        import optuna
    except ImportError:
        raise ImportError("method='tpe' needs the package optuna: pip install optuna") from None
    return optuna


def require(objectives):
    """Raises ImportError without Optuna, and InputError for other objectives than the loss."""
    _optuna()
    if list(objectives) != ["loss"]:
        raise _errors.InputError(f"method='tpe' with the objectives {list(objectives)}. Expected the loss alone")


class Proposals:
    """Proposes genomes. A study of Optuna is made anew from the log for each network, so a search goes on after any
    interruption, and workers on several ranks need no database."""

    def __init__(self, settings):
        self._optuna = _optuna()
        self._space = settings["space"]
        self._rungs = 1
        epochs = settings["first_epochs"]
        while epochs < settings["epochs"]:
            self._rungs, epochs = self._rungs + 1, epochs * settings["eta"]
        self._study = None

    def propose(self, networks, seed, trial):
        """A genome as JSON, given genome, losses by rung, and failure of each network. trial > 0: the one before is
        known."""
        if trial == 0:
            self._study = self._new_study(networks, seed)
        asked = self._study.ask()
        parts = {"stages": ("number", "stage"), "dense": ("layers", "dense")}
        genome = {part: self._layers(asked, part, *names) for part, names in parts.items()}
        genome["training"] = self._part(asked, "", self._space["training"])
        return json.dumps(genome)

    def _new_study(self, networks, seed):
        optuna = self._optuna
        told = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)  # no line for each study
        try:
            study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
        finally:
            optuna.logging.set_verbosity(told)
        states = optuna.trial.TrialState
        for genome, losses, failed in networks:
            if not losses and not failed:
                continue  # still trains
            params, distributions = self._values(json.loads(genome))
            complete = len(losses) == self._rungs and not failed
            study.add_trial(optuna.trial.create_trial(
                state=states.COMPLETE if complete else states.PRUNED, params=params, distributions=distributions,
                value=losses[-1] if complete else None,  # failed ones without values are the worst
                intermediate_values={} if failed else dict(enumerate(losses))))
        return study

    def _layers(self, asked, part, count, prefix):
        least, most = self._space[part][count]
        layers = asked.suggest_int(prefix, least, most) if least < most else least
        return [self._part(asked, f"{prefix}{k}_", self._space[part]) for k in range(layers)]

    def _part(self, asked, prefix, genes):
        return {name: asked.suggest_categorical(prefix + name, choices) for name, choices in genes.items()
                if name not in ("number", "layers")}

    def _values(self, genome):
        """The values and distributions of a genome, as _layers() and _part() ask for them."""
        distributions = self._optuna.distributions
        params, kinds = {}, {}

        def put(prefix, values, genes):
            for name, value in values.items():
                params[prefix + name] = value
                kinds[prefix + name] = distributions.CategoricalDistribution(genes[name])

        for part, count, prefix in (("stages", "number", "stage"), ("dense", "layers", "dense")):
            least, most = self._space[part][count]
            if least < most:
                params[prefix] = min(max(len(genome[part]), least), most)  # a stage may have been left out
                kinds[prefix] = distributions.IntDistribution(least, most)
            for k, layer in enumerate(genome[part]):
                put(f"{prefix}{k}_", layer, self._space[part])
        put("", genome["training"], self._space["training"])
        return params, kinds
