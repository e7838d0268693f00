// Package sections holds the parts of a configuration that belong to registered drivers, and the
// registered label devices. It imports nothing that can arm a robot, so that label devices can
// import it; package registry has the robots.
package sections
