"""How wide must a hidden layer be for 90% of held-out digits, in the median over seeds? Needs scikit-learn."""

import optuna
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

import optunahub

ThresholdSampler = optunahub.load_module("samplers/threshold_sampler").ThresholdSampler


def accuracy(trial: optuna.Trial) -> float:
    width = trial.suggest_int("width", 1, 64, log=True)
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X / 16, y, test_size=0.5, random_state=trial.number)
    net = MLPClassifier((width,), max_iter=60, random_state=trial.number).fit(X_train, y_train)
    return float(net.score(X_test, y_test))


if __name__ == "__main__":
    sampler = ThresholdSampler(target=0.9, scale="linear", seed=0)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.optimize(accuracy, n_trials=96)
    print(sampler.result(study))
