"""Messages of any subject, with or without JetStream: publish, subscribe, request, reply."""
