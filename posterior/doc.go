// Package posterior is the belief of a robot about its task: a linear-Gaussian
// posterior over the task embedding z.
package posterior
