// Package sensing shows what a robot senses while a person moves it by hand: the command sense. An
// owner needs it before there is a model, to choose limits and to find wrong signs and units.
package sensing
