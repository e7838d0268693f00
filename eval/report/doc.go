// Package report makes of an evaluation's results what a researcher wants to
// see: the paper's claims with what was measured, its figures, and what
// reproduces the numbers, as one page that loads nothing.
//
//	r, err := report.New(rows, report.Options{})
//	...
//	_, err = r.Write("report") // index.html, figures/*.svg and *.png, estimates.csv
//	err = r.WriteText(os.Stdout)
//
// The paper is Rupf et al. (2025), "Optimistic Task Inference for Behavior
// Foundation Models". Rows are eval.Row; give those of all experiments at once,
// as an experiment without an oracle is compared with the main comparison's.
//
// # Statistics
//
// A number of one trial is the mean of a measure over some of its rows (of
// labels the last, of rewards the mean over the steps). Its mean is taken over
// the trials of a model on a task, then over the tasks, then over the models,
// so that each counts the same. A return relative to the oracle is divided,
// model by model and task by task, by the mean of the oracle's trials.
//
// Intervals are 95 % percentile intervals of a stratified bootstrap, as in
// rliable (Agarwal et al., 2021): the trials of each model on each task are drawn
// anew, the oracle's too where something is divided by it. Unlike there, n-1 of
// n trials are drawn (Rao and Wu, 1988), without which the intervals of few
// trials are too narrow. They say what other trials of the same models and tasks
// might have shown. What other models might have shown is the range over the
// models, which is also what the figures' bands are, as in the paper. Trials of
// two methods are drawn apart, although those with the same number start from the
// same states: this errs towards wide intervals.
//
// Hyper-parameters that an experiment does not vary on purpose are shown with the
// value that did best in the environment, as in the paper, and chosen by the same
// trials; the page lists all of them.
//
// # Figures and claims
//
// A figure is declared in figures.go: the experiment, the measures, what is to
// the right, what makes a panel and what makes a line. Everything else follows
// from the rows. An experiment without a figure gets a plain one.
//
// A claim is declared in claims.go: quantities, differences or ratios of two,
// and bounds, for every value of some parameter or for at least one. It holds if
// the intervals of all its checks lie on the wanted side of their bounds in every
// environment, does not hold if one lies wholly on the other side, and cannot be
// told otherwise; the reason is given. Bounds that the paper does not give are
// constants there.
//
// The same rows, in any order, with the same options make the same files.
package report
