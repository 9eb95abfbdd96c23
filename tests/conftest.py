"""What every room's tests share: a real nats-server per test, and no settings of the developer."""
