"""What is particular to the OpenAI Agents SDK; what all adapters promise is in the matrix beside this."""
