// Command optibfm runs a robot that has a behaviour foundation model. The robot infers
// its task from reward labels of its operator. Start with `optibfm run`.
//
// It is a program of package optibfm with every driver of the repository.
package main

import (
	"optibfm"
	_ "optibfm/standard"
)

func main() {
	optibfm.RegisterCommand(newCalibrateCommand)
	optibfm.Main()
}
