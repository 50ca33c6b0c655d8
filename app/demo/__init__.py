"""A rule-based model behind the OpenAI API: newcomer demo and test double in one."""
