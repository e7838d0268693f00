// Package inference infers a task from a file of labels, without a robot.
//
// `optibfm infer` calls FromFile. The file is NumPy's .npz with rewards and either
// features or observations, which a model maps to features. The result is the task
// embedding of the posterior package's belief after all labels, and for each query
// what its label would teach.
package inference
