"""Every experiment of the paper, and more, on the public interface: `karenina reproduce`.

Enters: the populations of the zoo. Leaves: data, figures and tables (docs/results.md). Nothing else imports this.

    populations, tables   what is compared, and how far each pair can disagree, measured once
    selections            Alg. 2, iteration by iteration (Sec. 4.1 to 4.3, App. D to F)
    combinations          populations with few good models (App. E)
    attacks, gradients    gradient attacks in the verifier's place (App. G)
    uncertainty           ensembles' variance in the verifier's place (Sec. 4.4)
    choices               how one model should be chosen: ours
    algorithm, sampling, intervals   what these need
    paper                 the paper's numbers
    results, reproduce    data on disk, and who makes it
    drawing, figures, page, rows     figures and the tables of docs/results.md, from the data
"""

__all__: list[str] = []
