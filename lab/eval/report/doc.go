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
// Intervals are of 95 %, by a stratified bootstrap as in rliable (Agarwal et al.,
// 2021): the trials of each task are drawn anew, the oracle's too where something is
// divided by it. Unlike there, n-1 of n trials are drawn (Rao and
// Wu, 1988), and what is drawn gives a standard error to either side, of which an
// interval has as many as Student's t distribution asks for, with Satterthwaite's
// degrees of freedom: percentiles of a handful of trials are too narrow. Intervals
// say what other trials of the same models and tasks might have shown. What other
// models might have shown is the range over the models, which is also what the
// figures' bands are, as in the paper.
//
// Trials of a task with the same seed met the same initial states, whatever the method
// and the model: their numbers are drawn together, so that two methods, and the oracle,
// are compared trial by trial, and more models do not pass for more initial states.
// Where the seeds differ they are drawn apart, and the page says so.
//
// A claim holds where each of its checks does. That one fails is taken for chance
// unless it is as clear as one of so many must be (Bonferroni). Each claim is
// judged for itself; what stands where all of them are judged together (Holm, 1979)
// is marked.
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
// environment, holds in part where some of what it is about (an environment, a task,
// a model, a method) was not run, does not hold if one lies wholly on the other side,
// and cannot be told otherwise; the reason is given. A claim is judged by the models
// and tasks that all of its methods were tried on. Bounds that the paper does not give are constants there.
//
// The same rows, in any order, with the same options make the same files.
package report
