package servobus

import "fmt"

// CheckMembers reports the first of n servos of a configuration whose name is
// empty, whose ID is not in 0..maxID, or of which another has the name or the
// ID; and a number of servos that is not in 1..most. member tells a servo's name
// and ID, driver begins the error.
func CheckMembers(driver string, n, most, maxID int, member func(i int) (name string, id int)) error {
	if n < 1 || n > most {
		return fmt.Errorf("%s: servos: not between 1 and %d (%d): name those of the bus", driver, most, n)
	}
	names, ids := map[string]bool{}, map[int]bool{}
	for i := range n {
		name, id := member(i)
		if name == "" || names[name] {
			return fmt.Errorf("%s: servos[%d]: name: empty or given twice (%q): give each servo its own", driver, i, name)
		}
		if id < 0 || id > maxID || ids[id] {
			return fmt.Errorf("%s: servos[%d] %q: id: not between 0 and %d, or given twice (%d): give the servo's own", driver, i, name, maxID, id)
		}
		names[name], ids[id] = true, true
	}
	return nil
}
