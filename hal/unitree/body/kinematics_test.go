package body

import (
	"bytes"
	"go/format"
	"math"
	"os"
	"os/exec"
	"testing"

	"optibfm/hal/legged"
	"optibfm/internal/fatal"
	"optibfm/internal/npz"
)

var trees = map[string]*legged.Body{"go2": Go2(), "g1": G1()}

// rows returns a function that returns row i of an array of a file.
func rows(t *testing.T, file npz.Archive, name string) func(i int) []float64 {
	t.Helper()
	array, err := file.Get(name)
	fatal.If(t, err)
	values, size := array.Float64s(), 1
	for _, n := range array.Shape()[1:] {
		size *= n
	}
	return func(i int) []float64 { return values[i*size:][:size] }
}

func open(t *testing.T, path string) npz.Archive {
	t.Helper()
	file, err := npz.ReadFile(path)
	fatal.If(t, err)
	return file
}

func vector(x []float64) legged.Vector { return legged.Vector(x[:3]) }

// The motions are random, and what MuJoCo computes of them: scripts/body_tables.py.
func TestKinematics_AreThoseOfMuJoCo(t *testing.T) {
	file := open(t, "testdata/motions.npz")
	for robot, body := range trees {
		of := func(name string) func(int) []float64 { return rows(t, file, robot+"/"+name) }
		q, dq, spin, orientation, height := of("q"), of("dq"), of("spin"), of("orientation"), of("height")
		position, rotation, velocity, turns := of("position"), of("rotation"), of("link_velocity"), of("link_spin")
		k, worst := legged.NewKinematics(body), 0.0
		compare := func(got, want float64) { worst = max(worst, math.Abs(got-want)) }
		array, _ := file.Get(robot + "/height")
		for i := range array.Shape()[0] {
			k.Update(q(i), dq(i), vector(spin(i)))
			for link, pose := range k.Poses {
				for j := range 3 {
					compare(pose.Position[j], position(i)[3*link+j])
					compare(pose.Velocity[j], velocity(i)[3*link+j])
					compare(pose.Spin[j], turns(i)[3*link+j])
				}
				for j, want := range rotation(i)[9*link:][:9] {
					compare(pose.Rotation[j], want)
				}
			}
			compare(k.Depth(down(orientation(i))), height(i)[0])
		}
		t.Logf("%s: at most %.1e", robot, worst)
		if !(worst < 1e-9) {
			t.Errorf("%s: %g from MuJoCo", robot, worst)
		}
	}
}

// down returns the direction of gravity in a base with the orientation w x y z.
func down(q []float64) legged.Vector {
	w, x, y, z := q[0], q[1], q[2], q[3]
	return legged.Vector{2 * (w*y - x*z), -2 * (y*z + w*x), -1 + 2*(x*x+y*y)}
}

func TestTables_AreThoseOfTheMJCF(t *testing.T) {
	cmd := exec.Command("python3", "body_tables.py")
	cmd.Dir = "../../../scripts"
	cmd.Env = append(cmd.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	var errors bytes.Buffer
	cmd.Stderr = &errors
	got, err := cmd.Output()
	if err != nil && (bytes.Contains(errors.Bytes(), []byte("No module named")) || os.IsNotExist(err)) {
		t.Skipf("python3: %v %s", err, errors.Bytes())
	}
	if err != nil {
		t.Fatalf("%v %s", err, errors.Bytes())
	}
	if got, err = format.Source(got); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("tables.go")
	fatal.If(t, err)
	if !bytes.Equal(got, want) {
		t.Error("tables.go is not what scripts/body_tables.py writes; run it again")
	}
}
